package roce

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A UCConfig configures an Unreliable Connection queue pair.
type UCConfig struct {
	Recv   Completer   // receives completions for receives; may be nil
	Recvs  int         // maximum number posted at a time; 0 means 128
	Access rdma.Access // rdma.RemoteWrite lets the peer send RDMA WRITEs
}

// A Peer describes a UC queue pair's other end. The two clients exchange these
// values themselves.
type Peer struct {
	Address
	QP   uint32 // its queue pair number
	PMTU int    // payload bytes per packet: 256, 512, 1024, 2048 or 4096, the same at both ends
	PSN  uint32 // its first packet's PSN; a wrong guess does no harm
}

// A UC is an Unreliable Connection queue pair. Its methods may be called by
// several goroutines.
type UC struct {
	queuePair
	sender sender
	access rdma.Access

	// Set from RTR on.
	peer Peer
	to   packet.Network

	// The responder's state, under the queue pair's mutex.
	expectedPSN uint32 // ePSN
	outOfOrder  bool   // a packet was out of order, and no message has begun since
	current     inboundMessage
}

// NewUC returns a queue pair, in Reset.
func (pd *ProtectionDomain) NewUC(cfg UCConfig) (*UC, error) {
	q := &UC{access: cfg.Access}
	if err := q.init(pd, cfg.Recvs, cfg.Recv); err != nil {
		return nil, err
	}
	q.sender.q = &q.queuePair
	var err error
	q.number, err = q.dev.addQueuePair(q, 0)
	return q, err
}

// Init moves the queue pair from Reset to Init: receives may be posted.
func (q *UC) Init() error { return q.changeState(Reset, Init, nil) }

// ReadyToReceive moves the queue pair from Init to RTR, connected to a peer.
func (q *UC) ReadyToReceive(p Peer) error {
	w := q.dev.wire
	if err := p.checkReachable(w); err != nil {
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
	return q.changeState(Init, RTR, func() {
		q.peer, q.to = p, p.networkHeader(w)
		q.expectedPSN, q.outOfOrder, q.current = p.PSN, false, inboundMessage{}
	})
}

// ReadyToSend moves the queue pair from RTR to RTS. The first packet will have
// the PSN psn, 24 bits.
func (q *UC) ReadyToSend(psn uint32) error {
	if psn > packet.Mask24 {
		return fmt.Errorf("roce: PSN %#x has more than 24 bits", psn)
	}
	q.sender.mu.Lock()
	defer q.sender.mu.Unlock()
	return q.changeState(RTR, RTS, func() { q.sender.psn = psn })
}

// Connect moves a queue pair from Reset to RTS.
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
	q.enterError(rdma.ErrClosed)
	q.dev.removeQueuePair(q.number)
}

// Post sends messages in order, and returns when the wire has accepted them, or
// an error has moved the queue pair to Error. They may be lost. An error means
// that nothing was sent, and no completion follows: the queue pair cannot send,
// or a work request is invalid for UC.
func (q *UC) Post(wrs ...WR) error {
	for i := range wrs {
		if err := wrs[i].checkUC(); err != nil {
			return err
		}
	}
	flushed, err := q.checkCanSend()
	switch {
	case err != nil:
		return err
	case flushed:
		q.sender.flushRequests(wrs)
		return nil
	}
	sent, err := q.transmitMessages(wrs)
	if err != nil {
		q.enterError(err) // C9-180: the message is aborted
	}
	for i := range wrs[:sent] {
		q.sender.completeRequest(&wrs[i], nil)
	}
	if err != nil && sent < len(wrs) {
		q.sender.completeRequest(&wrs[sent], err)
		q.sender.flushRequests(wrs[sent+1:])
	}
	return nil
}

// checkUC returns an error if the work request is invalid for UC.
func (wr *WR) checkUC() error {
	n := wr.messageLen()
	switch {
	case wr.Op != rdma.OpSend && wr.Op != rdma.OpWrite:
		return fmt.Errorf("roce: UC has no %v", wr.Op)
	case n > maxMessage:
		return fmt.Errorf("roce: a message of %d bytes: the limit is %d", n, maxMessage)
	}
	return nil
}

// transmitMessages splits messages into packets and sends them. It returns the number of messages
// that the wire has accepted completely.
func (q *UC) transmitMessages(wrs []WR) (sent int, err error) {
	s := &q.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginBatch(q.peer.PMTU)
	defer s.releaseBatch()
	for i := range wrs {
		if err = q.cutMessage(&wrs[i]); err != nil {
			break
		}
	}
	if flushed := s.flushBatch(); err == nil {
		err = flushed
	}
	return s.sentMessages, err
}

// cutMessage builds a message's packets: all but the last are full (C9-177 to
// C9-179).
func (q *UC) cutMessage(wr *WR) error {
	s, total := &q.sender, wr.messageLen()
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
		b, err := from.appendNext(p.AppendHeaders(s.nextSlot()), n)
		if err == nil {
			err = s.addPacket(&p, b, &q.to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
