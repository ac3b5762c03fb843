package roce

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// An inboundMessage is the state of a UC message that is being received.
type inboundMessage struct {
	begun     bool
	write     bool
	received  int     // bytes so far
	region    *Region // for a non-empty RDMA WRITE
	addr      uint64  // next byte's address
	remaining uint32  // bytes announced in the RETH that have not arrived
}

// receivePacket receives a packet. It makes the rest of section 9.6's checks, then figure 117's.
func (q *UC) receivePacket(d *Datagram, p *packet.Packet, rest []byte) Drop {
	q.mu.Lock()
	cause := q.checkHeaders(d, p, rest)
	if cause != notDropped {
		q.mu.Unlock()
		return cause
	}
	m, cause := q.validatePacket(p)
	if cause != notDropped {
		q.abandonMessage() // C9-186, C9-188, C9-191
		q.mu.Unlock()
		return cause
	}
	c, done, cause, err := q.placePayload(m, p)
	var left []Recv
	if err != nil {
		left = q.enterErrorLocked(err)
	}
	q.mu.Unlock()
	if done {
		q.completeRecv(c)
	}
	q.flushRecvs(left)
	return cause
}

// checkHeaders checks the headers (9.6).
func (q *UC) checkHeaders(d *Datagram, p *packet.Packet, rest []byte) Drop {
	switch {
	case !q.canReceive():
		return dropState
	case p.Opcode.Service() != packet.UC:
		return dropService
	case !samePartition(p.PKey, q.dev.cfg.PKey):
		return dropPKey
	case d.Src != q.to.Dst || d.Dst != q.to.Src:
		return dropAddress
	case p.ParseExtended(rest) != nil:
		return dropLength
	}
	return notDropped
}

// abandonMessage abandons the message that is being received. Its receive is free for the next
// message, even if bytes were placed there.
func (q *UC) abandonMessage() {
	if q.current.begun {
		q.dev.counters.broken.Add(1)
	}
	q.current = inboundMessage{}
}

// validatePacket checks PSN, opcode sequence, opcode, resources and length. It
// returns the current message, which the packet begins or continues.
func (q *UC) validatePacket(p *packet.Packet) (inboundMessage, Drop) {
	if cause := q.checkPSN(p); cause != notDropped {
		return inboundMessage{}, cause
	}
	if cause := q.checkSequence(p); cause != notDropped {
		return inboundMessage{}, cause
	}
	switch {
	case p.Opcode.Write() && q.access&rdma.RemoteWrite == 0:
		return inboundMessage{}, dropOpcode // C9-190
	case !p.Opcode.Ends() && p.Pad != 0:
		return inboundMessage{}, dropPad // C9-199
	}
	m := q.current
	if p.Opcode.Starts() {
		var cause Drop
		if m, cause = q.startMessage(p); cause != notDropped {
			return m, cause
		}
	}
	if needs := !m.write || p.Opcode.Immediate(); needs && q.recvs.front() == nil {
		return m, dropNoRecv // C9-169
	}
	return m, q.checkLength(m, p)
}

// checkPSN compares with ePSN. A packet that starts a message is in order with
// any PSN (C9-183 to C9-186).
func (q *UC) checkPSN(p *packet.Packet) Drop {
	if p.PSN != q.expectedPSN {
		if !q.outOfOrder {
			q.dev.counters.gaps.Add(1) // o9-131
		}
		if !p.Opcode.Starts() {
			q.outOfOrder = true
			return dropPSN
		}
	}
	q.expectedPSN, q.outOfOrder = packet.NextPSN(p.PSN), false
	return notDropped
}

// checkSequence enforces table 56 (C9-187 to C9-189): a message is first,
// middles and last, or only, and all with one operation.
func (q *UC) checkSequence(p *packet.Packet) Drop {
	switch {
	case !p.Opcode.Known():
		return dropOpcode
	case p.Opcode.Starts():
		q.abandonMessage()
	case !q.current.begun || q.current.write != p.Opcode.Write():
		return dropSequence
	}
	return notDropped
}

// startMessage begins a message. An empty RDMA WRITE writes nothing, so its R_Key is
// not checked (C9-193).
func (q *UC) startMessage(p *packet.Packet) (inboundMessage, Drop) {
	m := inboundMessage{begun: true, write: p.Opcode.Write()}
	if !m.write || p.RETH.Length == 0 {
		return m, notDropped
	}
	if m.region = q.dev.findRegion(p.RETH.RKey); m.region == nil {
		return m, dropRKey
	}
	m.addr, m.remaining = p.RETH.VA, p.RETH.Length
	return m, m.region.checkWrite(q.domain, p.RETH)
}

// checkLength enforces C9-194 to C9-197 and, packet by packet, the announced
// length of an RDMA WRITE.
func (q *UC) checkLength(m inboundMessage, p *packet.Packet) Drop {
	n := len(p.Payload)
	starts, ends := p.Opcode.Starts(), p.Opcode.Ends()
	switch {
	case n > q.peer.PMTU, !ends && n != q.peer.PMTU, ends && !starts && n == 0:
		return dropPayload
	case m.write && (uint64(n) > uint64(m.remaining) || ends != (uint64(n) == uint64(m.remaining))):
		return dropBounds
	case !m.write && m.received+n > len(q.recvs.front().Data):
		return dropTooLong
	}
	return notDropped
}

// placePayload places the payload, and completes the receive if the message ends and
// uses one. err is a local error; the receive completes with it.
func (q *UC) placePayload(m inboundMessage, p *packet.Packet) (c Completion, done bool, cause Drop, err error) {
	cause = notDropped
	n := len(p.Payload)
	switch {
	case !m.write:
		err = placeBytes(q.recvs.front().Data[m.received:][:n], p.Payload)
	case n > 0:
		cause, err = m.region.placeAt(m.addr, p.Payload)
	}
	if cause != notDropped { // the region was removed in the meantime
		q.abandonMessage()
		return c, false, cause, nil
	}
	m.received += n
	m.addr += uint64(n)
	m.remaining -= uint32(n)
	q.current = m
	usesRecv := !m.write || p.Opcode.Immediate()
	switch {
	case err != nil:
		q.abandonMessage()
		if !usesRecv {
			return c, false, notDropped, err
		}
	case !p.Opcode.Ends():
		return c, false, notDropped, nil
	default:
		q.current = inboundMessage{}
		q.dev.counters.countMessage(m.received)
		if !usesRecv {
			return c, false, notDropped, nil
		}
	}
	c = Completion{
		ID: q.recvs.pop().ID, Op: rdma.OpSend, Err: err, Bytes: m.received,
		Immediate: p.Immediate, WithImmediate: p.Opcode.Immediate(), Solicited: p.Solicited,
	}
	if m.write {
		c.Op = rdma.OpWrite
	}
	return c, true, notDropped, err
}

// ErrFault is wrapped by the error of a queue pair whose memory was missing: a
// mapping of a truncated file.
var ErrFault = errors.New("roce: memory is not registered")

// placeBytes copies src to dst, which has the same length. Either may lie in a
// file mapping. An access beyond the file's end is a local fault and does not
// end the process; the bytes copied so far stay.
func placeBytes(dst, src []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil { // no other panic is possible here
			err = fmt.Errorf("%w: %v", ErrFault, fault)
		}
	}()
	copy(dst, src)
	return nil
}
