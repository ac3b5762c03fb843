package roce

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// A sender cuts messages into packets and passes them to the wire in batches.
// All posted packets have left when Post returns: a sender waits only for room
// in the network.
type sender struct {
	q     *queuePair
	slot  int // bytes for each packet
	check packet.Check

	mu     sync.Mutex
	psn    uint32 // of the next packet
	mem    *buf.Buf
	batch  [sendBatch]Datagram
	ends   [sendBatch]bool // the message ends with this packet
	n      int
	handed int // messages that the wire has taken completely
}

// begin takes memory for a batch. The caller holds the sender's lock.
func (s *sender) begin(pmtu int) {
	s.slot = packet.MaxHeaders + pmtu + packet.ICRCLen
	s.mem = buf.Default.Get(sendBatch * s.slot)
	s.n, s.handed = 0, 0
}

func (s *sender) end() {
	s.mem.Release()
	s.mem = nil
}

// room returns the memory for the next packet.
func (s *sender) room() []byte { return s.mem.B[s.n*s.slot:][:0:s.slot] }

// add completes a packet, made in room, with pad and ICRC, and flushes the
// batch when it is full.
func (s *sender) add(p *packet.Packet, b []byte, to *packet.Network) error {
	b = append(b, "\x00\x00\x00"[:p.Pad]...)
	s.batch[s.n] = Datagram{Network: *to, Bytes: s.check.AppendICRC(to, b)}
	s.ends[s.n] = p.Opcode.Ends()
	s.n++
	s.psn = packet.NextPSN(s.psn) // C9-175, C9-204
	if s.n == sendBatch {
		return s.flush()
	}
	return nil
}

// flush passes the batch to the wire. PSNs of packets that the wire did not
// take are free again.
func (s *sender) flush() error {
	if s.n == 0 {
		return nil
	}
	sent, err := s.q.dev.wire.Send(s.batch[:s.n])
	for _, ends := range s.ends[:sent] {
		if ends {
			s.handed++
		}
	}
	s.psn = (s.psn - uint32(s.n-sent)) & packet.Mask24
	s.n = 0
	s.q.dev.counters.sent.packets.Add(uint64(sent))
	return err
}

// done reports the completion of one work request.
func (s *sender) done(wr *WR, err error) {
	if err == nil {
		c := &s.q.dev.counters.sent
		c.messages.Add(1)
		c.bytes.Add(uint64(wr.bytes()))
	}
	if wr.Done != nil {
		wr.Done.Complete(Completion{QP: s.q.number, ID: wr.ID, Op: wr.Op, Err: err})
	}
}

// flushAll completes work requests of a queue pair in Error.
func (s *sender) flushAll(wrs []WR) {
	for i := range wrs {
		s.done(&wrs[i], rdma.ErrFlushed)
	}
}

// bytes returns the length of the message in bytes.
func (wr *WR) bytes() (n int) {
	for _, d := range wr.Data {
		n += len(d)
	}
	return n
}

// A gatherer walks over the parts of a message.
type gatherer struct {
	parts [][]byte
	off   int // in the first part
}

// next appends the next n bytes to b, which has room.
func (g *gatherer) next(b []byte, n int) ([]byte, error) {
	for n > 0 {
		part := g.parts[0][g.off:]
		if len(part) == 0 {
			g.parts, g.off = g.parts[1:], 0
			continue
		}
		k := min(n, len(part))
		at := len(b)
		b = b[:at+k]
		if err := place(b[at:], part[:k]); err != nil {
			return b, err
		}
		g.off += k
		n -= k
	}
	return b, nil
}
