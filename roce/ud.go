package roce

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// A UDConfig configures a queue pair of Unreliable Datagram.
type UDConfig struct {
	Recv  Completer // of receives; may be nil
	Recvs int       // that may be posted at a time; 0 means 128

	// Number is the queue pair's number, if peers must know it in advance; 0
	// means a number that nobody can guess.
	Number uint32
}

// A UD is a queue pair of Unreliable Datagram. Its methods may be called by
// several goroutines.
type UD struct {
	queuePair
	sender sender
	qkey   uint32 // from Init on
	grh    [GRHLen]byte
}

// NewUD makes a queue pair, in Reset.
func (pd *ProtectionDomain) NewUD(cfg UDConfig) (*UD, error) {
	q := &UD{}
	if err := q.init(pd, cfg.Recvs, cfg.Recv); err != nil {
		return nil, err
	}
	q.sender.q = &q.queuePair
	var err error
	q.number, err = q.dev.add(q, cfg.Number)
	return q, err
}

// Init takes the queue pair from Reset to Init. The queue pair receives only
// datagrams with this Q_Key. A Q_Key with the high bit set is for privileged
// users (section 10.2.5): Config.Controlled.
func (q *UD) Init(qkey uint32) error {
	if qkey&controlledQKey != 0 && !q.dev.cfg.Controlled {
		return fmt.Errorf("roce: the device does not allow the controlled Q_Key %#x", qkey)
	}
	return q.move(Reset, Init, func() { q.qkey = qkey })
}

// ReadyToReceive takes the queue pair from Init to RTR.
func (q *UD) ReadyToReceive() error { return q.move(Init, RTR, nil) }

// ReadyToSend takes the queue pair from RTR to RTS. The first packet will have
// the PSN psn, 24 bits, which receivers ignore.
func (q *UD) ReadyToSend(psn uint32) error {
	if psn > packet.Mask24 {
		return fmt.Errorf("roce: PSN %#x has more than 24 bits", psn)
	}
	q.sender.mu.Lock()
	defer q.sender.mu.Unlock()
	return q.move(RTR, RTS, func() { q.sender.psn = psn })
}

// Start takes a queue pair from Reset to RTS.
func (q *UD) Start(qkey uint32) error {
	if err := q.Init(qkey); err != nil {
		return err
	}
	if err := q.ReadyToReceive(); err != nil {
		return err
	}
	return q.ReadyToSend(0)
}

// Close ends the queue pair and leaves its groups. Posted receives complete as
// flushed.
func (q *UD) Close() {
	q.fail(rdma.ErrClosed)
	q.dev.leaveAll(q)
	q.dev.remove(q.number)
}

// Post sends datagrams in order, and returns when the wire has taken them. They
// may be lost. If a datagram cannot leave, for example because its destination
// has no route, its completion reports the error, the others are sent, and the
// queue pair keeps its state. An error of Post means that nothing was sent, and
// no completion follows: the queue pair cannot send, or a work request is
// invalid for UD.
func (q *UD) Post(wrs ...WR) error {
	for i := range wrs {
		if err := q.checkUD(&wrs[i]); err != nil {
			return err
		}
	}
	flushed, err := q.sends()
	switch {
	case err != nil:
		return err
	case flushed:
		q.sender.flushAll(wrs)
		return nil
	}
	for len(wrs) > 0 {
		handed, err := q.transmit(wrs)
		for i := range wrs[:handed] {
			q.sender.done(&wrs[i], nil)
		}
		wrs = wrs[handed:]
		if err != nil && len(wrs) > 0 {
			q.sender.done(&wrs[0], err)
			wrs = wrs[1:]
		}
	}
	return nil
}

// checkUD reports why a work request is invalid for UD.
func (q *UD) checkUD(wr *WR) error {
	switch n, most := wr.bytes(), q.dev.MaxPMTU(); {
	case wr.Op != rdma.OpSend:
		return fmt.Errorf("roce: UD has no %v", wr.Op)
	case n > most: // C9-200
		return fmt.Errorf("roce: a datagram of %d bytes: the path MTU is %d", n, most)
	case wr.To.QP > packet.MulticastQP:
		return fmt.Errorf("roce: queue pair %#x has more than 24 bits", wr.To.QP)
	case (wr.To.QP == packet.MulticastQP) != wr.To.Addr.IsMulticast():
		return fmt.Errorf("roce: queue pair %#x at %v: groups, and no others, have %#x", wr.To.QP, wr.To.Addr, packet.MulticastQP)
	}
	return wr.To.check(q.dev.wire)
}

// transmit sends datagrams, and returns the number that the wire has taken.
func (q *UD) transmit(wrs []WR) (handed int, err error) {
	s := &q.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(q.dev.MaxPMTU())
	defer s.end()
	for i := range wrs {
		if err = q.pack(&wrs[i]); err != nil {
			break
		}
	}
	if flushed := s.flush(); err == nil || flushed != nil {
		err = flushed // of an earlier datagram, if any
	}
	return s.handed, err
}

// pack makes the packet of a datagram.
func (q *UD) pack(wr *WR) error {
	s, n := &q.sender, wr.bytes()
	p := packet.Packet{
		BTH: packet.BTH{
			Opcode: packet.UDSendOnly, Solicited: wr.Solicited, Pad: packet.PadFor(n),
			PKey: q.dev.cfg.PKey, DestQP: wr.To.QP, PSN: s.psn,
		},
		DETH:      packet.DETH{QKey: wr.To.QKey, SrcQP: q.number},
		Immediate: wr.Immediate,
	}
	if wr.WithImmediate {
		p.Opcode = packet.UDSendOnlyImmediate
	}
	if wr.To.QKey&controlledQKey != 0 {
		p.DETH.QKey = q.qkey
	}
	from, to := gatherer{parts: wr.Data}, wr.To.network(q.dev.wire)
	b, err := from.next(p.AppendHeaders(s.room()), n)
	if err != nil {
		return err
	}
	return s.add(&p, b, &to)
}

// receive takes a packet. It makes the rest of section 9.6's checks, then those
// of the receive queue. The PSN is ignored (o9-144).
func (q *UD) receive(d *Datagram, p *packet.Packet, rest []byte) Drop {
	q.mu.Lock()
	if cause := q.admit(p, rest); cause != taken {
		q.mu.Unlock()
		return cause
	}
	wr := q.recvs.pop()
	err := q.placeLocked(wr.Data, d, p)
	var left []Recv
	if err != nil {
		left = q.failLocked(err)
	}
	q.mu.Unlock()
	if err == nil {
		q.dev.counters.message(len(p.Payload))
	}
	q.complete(Completion{
		ID: wr.ID, Op: rdma.OpSend, Err: err, Bytes: GRHLen + len(p.Payload),
		Immediate: p.Immediate, WithImmediate: p.Opcode.Immediate(), Solicited: p.Solicited,
		From: Source{Addr: addrOf(d.Src), QP: p.DETH.SrcQP, Multicast: p.DestQP == packet.MulticastQP},
	})
	q.flush(left)
	return taken
}

// admit reports why a packet is dropped.
func (q *UD) admit(p *packet.Packet, rest []byte) Drop {
	switch {
	case !q.receives():
		return DropState
	case p.Opcode.Service() != packet.UD:
		return DropService
	case !samePartition(p.PKey, q.dev.cfg.PKey):
		return DropPKey
	case p.ParseExtended(rest) != nil:
		return DropLength
	case p.DETH.QKey != q.qkey:
		return DropQKey
	case !p.Opcode.Known(): // C9-206
		return DropOpcode
	case q.recvs.front() == nil: // C9-207
		return DropNoRecv
	case len(p.Payload) > q.dev.MaxPMTU(): // C9-205
		return DropPayload
	case GRHLen+len(p.Payload) > len(q.recvs.front().Data):
		return DropRoom
	}
	return taken
}

// placeLocked fills a receive.
func (q *UD) placeLocked(mem []byte, d *Datagram, p *packet.Packet) error {
	if err := place(mem[:GRHLen], d.AppendGRH(q.grh[:0], len(d.Bytes))); err != nil {
		return err
	}
	return place(mem[GRHLen:][:len(p.Payload)], p.Payload)
}
