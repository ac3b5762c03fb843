package roce

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A sender splits messages into packets and passes them to the wire in batches.
// All posted packets have been sent when Post returns: a sender waits only for
// the network.
type sender struct {
	q       *queuePair
	slotLen int // bytes per packet
	check   packet.Check

	mu           sync.Mutex
	psn          uint32 // next packet's PSN
	mem          *buf.Buf
	batch        [sendBatch]Datagram
	ends         [sendBatch]bool // the message ends with this packet
	n            int
	sentMessages int // messages that the wire has accepted completely
}

// beginBatch allocates memory for a batch. The caller holds the sender's lock.
func (s *sender) beginBatch(pmtu int) {
	s.slotLen = packet.MaxHeaders + pmtu + packet.ICRCLen
	s.mem = buf.Default.Get(sendBatch * s.slotLen)
	s.n, s.sentMessages = 0, 0
}

func (s *sender) releaseBatch() {
	s.mem.Release()
	s.mem = nil
}

// nextSlot returns the memory for the next packet.
func (s *sender) nextSlot() []byte { return s.mem.B[s.n*s.slotLen:][:0:s.slotLen] }

// addPacket completes a packet, built in nextSlot's memory, with pad and ICRC,
// and flushes the batch when it is full.
func (s *sender) addPacket(p *packet.Packet, b []byte, to *packet.Network) error {
	b = append(b, "\x00\x00\x00"[:p.Pad]...)
	s.batch[s.n] = Datagram{Network: *to, Bytes: s.check.AppendICRC(to, b)}
	s.ends[s.n] = p.Opcode.Ends()
	s.n++
	s.psn = packet.NextPSN(s.psn) // C9-175, C9-204
	if s.n == sendBatch {
		return s.flushBatch()
	}
	return nil
}

// flushBatch passes the batch to the wire. PSNs for packets that the wire did
// not accept are reused.
func (s *sender) flushBatch() error {
	if s.n == 0 {
		return nil
	}
	sent, err := s.q.dev.wire.Send(s.batch[:s.n])
	for _, ends := range s.ends[:sent] {
		if ends {
			s.sentMessages++
		}
	}
	s.psn = (s.psn - uint32(s.n-sent)) & packet.Mask24
	s.n = 0
	s.q.dev.counters.sent.packets.Add(uint64(sent))
	return err
}

// completeRequest reports a work request's completion.
func (s *sender) completeRequest(wr *WR, err error) {
	if err == nil {
		c := &s.q.dev.counters.sent
		c.messages.Add(1)
		c.bytes.Add(uint64(wr.messageLen()))
	}
	if wr.Done != nil {
		wr.Done.Complete(Completion{QP: s.q.number, ID: wr.ID, Op: wr.Op, Err: err})
	}
}

// flushRequests completes work requests as flushed, for a queue pair in Error.
func (s *sender) flushRequests(wrs []WR) {
	for i := range wrs {
		s.completeRequest(&wrs[i], rdma.ErrFlushed)
	}
}

// messageLen returns the message length in bytes.
func (wr *WR) messageLen() (n int) {
	for _, d := range wr.Data {
		n += len(d)
	}
	return n
}

// A gatherer walks over a message's parts.
type gatherer struct {
	parts [][]byte
	off   int // in the first part
}

// appendNext appends the next n bytes to b, which has the capacity.
func (g *gatherer) appendNext(b []byte, n int) ([]byte, error) {
	for n > 0 {
		part := g.parts[0][g.off:]
		if len(part) == 0 {
			g.parts, g.off = g.parts[1:], 0
			continue
		}
		k := min(n, len(part))
		at := len(b)
		b = b[:at+k]
		if err := placeBytes(b[at:], part[:k]); err != nil {
			return b, err
		}
		g.off += k
		n -= k
	}
	return b, nil
}
