package roce

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A UDConfig configures an Unreliable Datagram queue pair.
type UDConfig struct {
	Recv  Completer // receives completions for receives; may be nil
	Recvs int       // maximum number posted at a time; 0 means 128

	// Number is the queue pair's number, if peers must know it in advance; 0
	// means a number that cannot be guessed.
	Number uint32
}

// A UD is an Unreliable Datagram queue pair. Its methods may be called by
// several goroutines.
type UD struct {
	queuePair
	sender sender
	qkey   uint32 // set from Init on
	grh    [GRHLen]byte
}

// NewUD returns a queue pair, in Reset.
func (pd *ProtectionDomain) NewUD(cfg UDConfig) (*UD, error) {
	q := &UD{}
	if err := q.init(pd, cfg.Recvs, cfg.Recv); err != nil {
		return nil, err
	}
	q.sender.q = &q.queuePair
	var err error
	q.number, err = q.dev.addQueuePair(q, cfg.Number)
	return q, err
}

// Init moves the queue pair from Reset to Init. The queue pair receives only
// datagrams with this Q_Key. A Q_Key with the high bit set is for privileged
// users (section 10.2.5): Config.Controlled.
func (q *UD) Init(qkey uint32) error {
	if qkey&controlledQKey != 0 && !q.dev.cfg.Controlled {
		return fmt.Errorf("roce: the device does not allow the controlled Q_Key %#x", qkey)
	}
	return q.changeState(Reset, Init, func() { q.qkey = qkey })
}

// ReadyToReceive moves the queue pair from Init to RTR.
func (q *UD) ReadyToReceive() error { return q.changeState(Init, RTR, nil) }

// ReadyToSend moves the queue pair from RTR to RTS. The first packet will have
// the PSN psn, 24 bits, which receivers ignore.
func (q *UD) ReadyToSend(psn uint32) error {
	if psn > packet.Mask24 {
		return fmt.Errorf("roce: PSN %#x has more than 24 bits", psn)
	}
	q.sender.mu.Lock()
	defer q.sender.mu.Unlock()
	return q.changeState(RTR, RTS, func() { q.sender.psn = psn })
}

// Start moves a queue pair from Reset to RTS.
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
	q.enterError(rdma.ErrClosed)
	q.dev.leaveGroups(q)
	q.dev.removeQueuePair(q.number)
}

// Post sends datagrams in order, and returns when the wire has accepted them.
// They may be lost. If a datagram cannot be sent, for example because its
// destination has no route, its completion reports the error, the others are
// sent, and the queue pair keeps its state. An error of Post means that nothing
// was sent, and no completion follows: the queue pair cannot send, or a work
// request is invalid for UD.
func (q *UD) Post(wrs ...WR) error {
	for i := range wrs {
		if err := q.checkUD(&wrs[i]); err != nil {
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
	for len(wrs) > 0 {
		sent, err := q.transmitDatagrams(wrs)
		for i := range wrs[:sent] {
			q.sender.completeRequest(&wrs[i], nil)
		}
		wrs = wrs[sent:]
		if err != nil && len(wrs) > 0 {
			q.sender.completeRequest(&wrs[0], err)
			wrs = wrs[1:]
		}
	}
	return nil
}

// checkUD returns an error if the work request is invalid for UD.
func (q *UD) checkUD(wr *WR) error {
	switch n, most := wr.messageLen(), q.dev.MaxPMTU(); {
	case wr.Op != rdma.OpSend:
		return fmt.Errorf("roce: UD has no %v", wr.Op)
	case n > most: // C9-200
		return fmt.Errorf("roce: a datagram of %d bytes: the path MTU is %d", n, most)
	case wr.To.QP > packet.MulticastQP:
		return fmt.Errorf("roce: queue pair %#x has more than 24 bits", wr.To.QP)
	case (wr.To.QP == packet.MulticastQP) != wr.To.Addr.IsMulticast():
		return fmt.Errorf("roce: queue pair %#x at %v: groups, and no others, have %#x", wr.To.QP, wr.To.Addr, packet.MulticastQP)
	}
	return wr.To.checkReachable(q.dev.wire)
}

// transmitDatagrams sends datagrams, and returns the number that the wire has accepted.
func (q *UD) transmitDatagrams(wrs []WR) (sent int, err error) {
	s := &q.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginBatch(q.dev.MaxPMTU())
	defer s.releaseBatch()
	for i := range wrs {
		if err = q.packDatagram(&wrs[i]); err != nil {
			break
		}
	}
	if flushed := s.flushBatch(); err == nil || flushed != nil {
		err = flushed // for an earlier datagram, if any
	}
	return s.sentMessages, err
}

// packDatagram builds a datagram's packet.
func (q *UD) packDatagram(wr *WR) error {
	s, n := &q.sender, wr.messageLen()
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
	from, to := gatherer{parts: wr.Data}, wr.To.networkHeader(q.dev.wire)
	b, err := from.appendNext(p.AppendHeaders(s.nextSlot()), n)
	if err != nil {
		return err
	}
	return s.addPacket(&p, b, &to)
}

// receivePacket receives a packet. It makes the rest of section 9.6's checks, then the receive
// queue's. The PSN is ignored (o9-144).
func (q *UD) receivePacket(d *Datagram, p *packet.Packet, rest []byte) Drop {
	q.mu.Lock()
	if cause := q.checkPacket(p, rest); cause != notDropped {
		q.mu.Unlock()
		return cause
	}
	wr := q.recvs.pop()
	err := q.placeLocked(wr.Data, d, p)
	var left []Recv
	if err != nil {
		left = q.enterErrorLocked(err)
	}
	q.mu.Unlock()
	if err == nil {
		q.dev.counters.countMessage(len(p.Payload))
	}
	q.completeRecv(Completion{
		ID: wr.ID, Op: rdma.OpSend, Err: err, Bytes: GRHLen + len(p.Payload),
		Immediate: p.Immediate, WithImmediate: p.Opcode.Immediate(), Solicited: p.Solicited,
		From: Source{Addr: addrOf(d.Src), QP: p.DETH.SrcQP, Multicast: p.DestQP == packet.MulticastQP},
	})
	q.flushRecvs(left)
	return notDropped
}

// checkPacket returns why a packet is dropped, or notDropped.
func (q *UD) checkPacket(p *packet.Packet, rest []byte) Drop {
	switch {
	case !q.canReceive():
		return dropState
	case p.Opcode.Service() != packet.UD:
		return dropService
	case !samePartition(p.PKey, q.dev.cfg.PKey):
		return dropPKey
	case p.ParseExtended(rest) != nil:
		return dropLength
	case p.DETH.QKey != q.qkey:
		return dropQKey
	case !p.Opcode.Known(): // C9-206
		return dropOpcode
	case q.recvs.front() == nil: // C9-207
		return dropNoRecv
	case len(p.Payload) > q.dev.MaxPMTU(): // C9-205
		return dropPayload
	case GRHLen+len(p.Payload) > len(q.recvs.front().Data):
		return dropTooLong
	}
	return notDropped
}

// placeLocked writes the GRH and the payload to a receive's memory.
func (q *UD) placeLocked(mem []byte, d *Datagram, p *packet.Packet) error {
	if err := placeBytes(mem[:GRHLen], d.AppendGRH(q.grh[:0], len(d.Bytes))); err != nil {
		return err
	}
	return placeBytes(mem[GRHLen:][:len(p.Payload)], p.Payload)
}
