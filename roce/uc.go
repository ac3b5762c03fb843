package roce

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// A UCConfig configures a queue pair of Unreliable Connection.
type UCConfig struct {
	Recv   Completer   // of receives; may be nil
	Recvs  int         // that may be posted at a time; 0 means 128
	Access rdma.Access // rdma.RemoteWrite lets the peer send RDMA WRITEs
}

// A Peer describes the other end of a UC queue pair. The two clients exchange
// these values themselves.
type Peer struct {
	Address
	QP   uint32 // its number
	PMTU int    // bytes of payload in a packet: 256, 512, 1024, 2048 or 4096, the same at both ends
	PSN  uint32 // of its first packet; a wrong guess does no harm
}

// A UC is a queue pair of Unreliable Connection. Its methods may be called by
// several goroutines.
type UC struct {
	queuePair
	sender sender
	access rdma.Access

	// From RTR on.
	peer Peer
	to   packet.Network

	// The responder's state, under the queue pair's mutex.
	expect  uint32 // ePSN
	waiting bool   // a packet was out of order, and no message has begun since
	current message
}

// NewUC makes a queue pair, in Reset.
func (pd *ProtectionDomain) NewUC(cfg UCConfig) (*UC, error) {
	q := &UC{access: cfg.Access}
	if err := q.init(pd, cfg.Recvs, cfg.Recv); err != nil {
		return nil, err
	}
	q.sender.q = &q.queuePair
	var err error
	q.number, err = q.dev.add(q, 0)
	return q, err
}

// Init takes the queue pair from Reset to Init: receives may be posted.
func (q *UC) Init() error { return q.move(Reset, Init, nil) }

// ReadyToReceive takes the queue pair from Init to RTR, connected to a peer.
func (q *UC) ReadyToReceive(p Peer) error {
	w := q.dev.wire
	if err := p.check(w); err != nil {
		return err
	}
	if p.Addr.IsMulticast() {
		return fmt.Errorf("%w: %v is a group", errAddress, p.Addr)
	}
	if err := checkMTU(w, p.PMTU); err != nil {
		return err
	}
	if p.QP >= packet.MulticastQP || p.PSN > packet.Mask24 {
		return fmt.Errorf("roce: a peer with queue pair %#x, PSN %#x: they have 24 bits", p.QP, p.PSN)
	}
	q.sender.mu.Lock()
	defer q.sender.mu.Unlock()
	return q.move(Init, RTR, func() {
		q.peer, q.to = p, p.network(w)
		q.expect, q.waiting, q.current = p.PSN, false, message{}
	})
}

// ReadyToSend takes the queue pair from RTR to RTS. The first packet will have
// the PSN psn, 24 bits.
func (q *UC) ReadyToSend(psn uint32) error {
	if psn > packet.Mask24 {
		return fmt.Errorf("roce: PSN %#x has more than 24 bits", psn)
	}
	q.sender.mu.Lock()
	defer q.sender.mu.Unlock()
	return q.move(RTR, RTS, func() { q.sender.psn = psn })
}

// Connect takes a queue pair from Reset to RTS.
func (q *UC) Connect(p Peer, psn uint32) error {
	if err := q.Init(); err != nil {
		return err
	}
	if err := q.ReadyToReceive(p); err != nil {
		return err
	}
	return q.ReadyToSend(psn)
}

// Close ends the queue pair. Posted receives complete as flushed.
func (q *UC) Close() {
	q.fail(rdma.ErrClosed)
	q.dev.remove(q.number)
}

// Post sends messages in order, and returns when the wire has taken them, or an
// error has taken the queue pair to Error. They may be lost. An error means
// that nothing was sent, and no completion follows: the queue pair cannot send,
// or a work request is invalid for UC.
func (q *UC) Post(wrs ...WR) error {
	for i := range wrs {
		if err := wrs[i].checkUC(); err != nil {
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
	handed, err := q.transmit(wrs)
	if err != nil {
		q.fail(err) // C9-180: the message is aborted
	}
	for i := range wrs[:handed] {
		q.sender.done(&wrs[i], nil)
	}
	if err != nil && handed < len(wrs) {
		q.sender.done(&wrs[handed], err)
		q.sender.flushAll(wrs[handed+1:])
	}
	return nil
}

// checkUC reports why a work request is invalid for UC.
func (wr *WR) checkUC() error {
	n := wr.bytes()
	switch {
	case wr.Op != rdma.OpSend && wr.Op != rdma.OpWrite:
		return fmt.Errorf("roce: UC has no %v", wr.Op)
	case n > maxMessage:
		return fmt.Errorf("roce: a message of %d bytes: the limit is %d", n, maxMessage)
	}
	return nil
}

// transmit cuts messages into packets and sends them. It returns the number of
// messages that the wire has taken completely.
func (q *UC) transmit(wrs []WR) (handed int, err error) {
	s := &q.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(q.peer.PMTU)
	defer s.end()
	for i := range wrs {
		if err = q.cut(&wrs[i]); err != nil {
			break
		}
	}
	if flushed := s.flush(); err == nil {
		err = flushed
	}
	return s.handed, err
}

// cut makes the packets of a message: all but the last are full (C9-177 to
// C9-179).
func (q *UC) cut(wr *WR) error {
	s, total := &q.sender, wr.bytes()
	from := gatherer{parts: wr.Data}
	for off, ends := 0, false; !ends; {
		n := min(total-off, q.peer.PMTU)
		starts := off == 0
		off += n
		ends = off == total
		p := packet.Packet{
			BTH: packet.BTH{
				Opcode:    packet.UCOpcode(wr.Op == rdma.OpWrite, starts, ends, wr.WithImmediate),
				Solicited: ends && wr.Solicited, Pad: packet.PadFor(n),
				PKey: q.dev.cfg.PKey, DestQP: q.peer.QP, PSN: s.psn, // C9-172
			},
			RETH:      packet.RETH{VA: wr.Remote.TO, RKey: uint32(wr.Remote.STag), Length: uint32(total)},
			Immediate: wr.Immediate,
		}
		b, err := from.next(p.AppendHeaders(s.room()), n)
		if err == nil {
			err = s.add(&p, b, &q.to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
