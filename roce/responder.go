package roce

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// A message is the state of a UC message that is coming in.
type message struct {
	begun  bool
	write  bool
	got    int     // bytes so far
	region *Region // of a non-empty RDMA WRITE
	at     uint64  // address of its next byte
	left   uint32  // bytes that the RETH announced and that have not arrived
}

// receive takes a packet. It makes the rest of section 9.6's checks, then those
// of figure 117.
func (q *UC) receive(d *Datagram, p *packet.Packet, rest []byte) Drop {
	q.mu.Lock()
	cause := q.admit(d, p, rest)
	if cause != taken {
		q.mu.Unlock()
		return cause
	}
	m, cause := q.validate(p)
	if cause != taken {
		q.abandon() // C9-186, C9-188, C9-191
		q.mu.Unlock()
		return cause
	}
	c, done, cause, err := q.execute(m, p)
	var left []Recv
	if err != nil {
		left = q.failLocked(err)
	}
	q.mu.Unlock()
	if done {
		q.complete(c)
	}
	q.flush(left)
	return cause
}

// admit checks the headers (9.6).
func (q *UC) admit(d *Datagram, p *packet.Packet, rest []byte) Drop {
	switch {
	case !q.receives():
		return DropState
	case p.Opcode.Service() != packet.UC:
		return DropService
	case !samePartition(p.PKey, q.dev.cfg.PKey):
		return DropPKey
	case d.Src != q.to.Dst || d.Dst != q.to.Src:
		return DropAddress
	case p.ParseExtended(rest) != nil:
		return DropLength
	}
	return taken
}

// abandon gives up the message that is coming in. Its receive is free for the
// next message, even if bytes were placed there.
func (q *UC) abandon() {
	if q.current.begun {
		q.dev.counters.broken.Add(1)
	}
	q.current = message{}
}

// validate checks PSN, opcode sequence, opcode, resources and length. It
// returns the message so far, which the packet begins or continues.
func (q *UC) validate(p *packet.Packet) (message, Drop) {
	if cause := q.checkPSN(p); cause != taken {
		return message{}, cause
	}
	if cause := q.checkSequence(p); cause != taken {
		return message{}, cause
	}
	switch {
	case p.Opcode.Write() && q.access&rdma.RemoteWrite == 0:
		return message{}, DropOpcode // C9-190
	case !p.Opcode.Ends() && p.Pad != 0:
		return message{}, DropPad // C9-199
	}
	m := q.current
	if p.Opcode.Starts() {
		var cause Drop
		if m, cause = q.start(p); cause != taken {
			return m, cause
		}
	}
	if needs := !m.write || p.Opcode.Immediate(); needs && q.recvs.front() == nil {
		return m, DropNoRecv // C9-169
	}
	return m, q.checkLength(m, p)
}

// checkPSN compares with ePSN. A packet that starts a message is in order with
// any PSN (C9-183 to C9-186).
func (q *UC) checkPSN(p *packet.Packet) Drop {
	if p.PSN != q.expect {
		if !q.waiting {
			q.dev.counters.gaps.Add(1) // o9-131
		}
		if !p.Opcode.Starts() {
			q.waiting = true
			return DropPSN
		}
	}
	q.expect, q.waiting = packet.NextPSN(p.PSN), false
	return taken
}

// checkSequence enforces table 56 (C9-187 to C9-189): a message is first,
// middles and last, or only, and all of one operation.
func (q *UC) checkSequence(p *packet.Packet) Drop {
	switch {
	case !p.Opcode.Known():
		return DropOpcode
	case p.Opcode.Starts():
		q.abandon()
	case !q.current.begun || q.current.write != p.Opcode.Write():
		return DropSequence
	}
	return taken
}

// start begins a message. An empty RDMA WRITE writes nothing, so its R_Key is
// not checked (C9-193).
func (q *UC) start(p *packet.Packet) (message, Drop) {
	m := message{begun: true, write: p.Opcode.Write()}
	if !m.write || p.RETH.Length == 0 {
		return m, taken
	}
	if m.region = q.dev.region(p.RETH.RKey); m.region == nil {
		return m, DropRKey
	}
	m.at, m.left = p.RETH.VA, p.RETH.Length
	return m, m.region.allows(q.domain, p.RETH)
}

// checkLength enforces C9-194 to C9-197 and, packet by packet, the announced
// length of an RDMA WRITE.
func (q *UC) checkLength(m message, p *packet.Packet) Drop {
	n := len(p.Payload)
	starts, ends := p.Opcode.Starts(), p.Opcode.Ends()
	switch {
	case n > q.peer.PMTU, !ends && n != q.peer.PMTU, ends && !starts && n == 0:
		return DropPayload
	case m.write && (uint64(n) > uint64(m.left) || ends != (uint64(n) == uint64(m.left))):
		return DropBounds
	case !m.write && m.got+n > len(q.recvs.front().Data):
		return DropRoom
	}
	return taken
}

// execute places the payload, and completes the receive if the message ends and
// uses one. err is a local error; the receive completes with it.
func (q *UC) execute(m message, p *packet.Packet) (c Completion, done bool, cause Drop, err error) {
	cause = taken
	n := len(p.Payload)
	switch {
	case !m.write:
		err = place(q.recvs.front().Data[m.got:][:n], p.Payload)
	case n > 0:
		cause, err = m.region.write(m.at, p.Payload)
	}
	if cause != taken { // the region was removed in the meantime
		q.abandon()
		return c, false, cause, nil
	}
	m.got += n
	m.at += uint64(n)
	m.left -= uint32(n)
	q.current = m
	takes := !m.write || p.Opcode.Immediate()
	switch {
	case err != nil:
		q.abandon()
		if !takes {
			return c, false, taken, err
		}
	case !p.Opcode.Ends():
		return c, false, taken, nil
	default:
		q.current = message{}
		q.dev.counters.message(m.got)
		if !takes {
			return c, false, taken, nil
		}
	}
	c = Completion{
		ID: q.recvs.pop().ID, Op: rdma.OpSend, Err: err, Bytes: m.got,
		Immediate: p.Immediate, WithImmediate: p.Opcode.Immediate(), Solicited: p.Solicited,
	}
	if m.write {
		c.Op = rdma.OpWrite
	}
	return c, true, taken, err
}

// ErrFault is wrapped by the error of a queue pair whose memory was missing: a
// mapping of a file that has been truncated.
var ErrFault = errors.New("roce: memory is not registered")

// place copies src to dst, which has the same length. Either may lie in a
// mapping of a file. An access beyond the file's end is a local fault and does
// not end the process; the bytes copied so far stay.
func place(dst, src []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil { // no other panic is possible here
			err = fmt.Errorf("%w: %v", ErrFault, fault)
		}
	}()
	copy(dst, src)
	return nil
}
