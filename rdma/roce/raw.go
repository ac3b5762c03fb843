package roce

import (
	"errors"
	"fmt"
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A Link carries IBA link packets, complete from the LRH to the VCRC. Its
// methods may be called by several goroutines.
type Link interface {
	Send(packet []byte) error
	// Serve passes received packets to deliver until Close, and returns why it
	// ended. The bytes belong to the Link again when deliver returns.
	Serve(deliver func([]byte)) error
	Close() error
}

// A RawPort has a link as its port, and raw queue pairs that use the link: one
// for each service in use (o9-146, o9-147). Its statistics count drops.
type RawPort struct {
	link      Link
	counters  deviceCounters
	serveDone chan struct{}

	mu     sync.Mutex
	pairs  map[rawService]*Raw
	closed bool
}

// A rawService identifies the datagrams that a raw queue pair receives.
type rawService struct {
	kind     packet.LNH
	protocol uint16 // the Ethertype, or IPv6's next header
}

// OpenRaw returns a port for a link. The port owns the link.
func OpenRaw(l Link) *RawPort {
	p := &RawPort{link: l, serveDone: make(chan struct{}), pairs: map[rawService]*Raw{}}
	go func() {
		defer close(p.serveDone)
		_ = l.Serve(p.deliverPacket) // the port ends with its link
		p.mu.Lock()
		p.closed = true
		all := p.pairs
		p.pairs = nil
		p.mu.Unlock()
		for _, q := range all {
			q.flushAll()
		}
	}()
	return p
}

// Stats returns the port's counters.
func (p *RawPort) Stats() Statistics { return p.counters.snapshot() }

// Close ends the port and its queue pairs, whose receives complete as flushed.
// When Close returns, no port goroutine is running.
func (p *RawPort) Close() error {
	err := p.link.Close()
	<-p.serveDone
	return err
}

// A Raw is a queue pair for raw datagrams.
type Raw struct {
	port    *RawPort
	service rawService
	recv    Completer
	mu      sync.Mutex
	recvs   recvQueue
}

var errRawService = errors.New("roce: raw datagrams of this kind are not supported")

// NewRaw returns a queue pair for datagrams with an RWH and an Ethertype (kind
// packet.RawEthertype), or for IPv6 datagrams with a next header
// (packet.RawIPv6; section 9.8.4). Other queue pairs receive the rest. At most
// recvs receives may be posted at a time; 0 means 128.
func (p *RawPort) NewRaw(kind packet.LNH, what uint16, recvs int, recv Completer) (*Raw, error) {
	if recvs == 0 {
		recvs = defaultRecvs
	}
	s := rawService{kind: kind, protocol: what}
	switch {
	case kind != packet.RawEthertype && kind != packet.RawIPv6,
		kind == packet.RawIPv6 && (what > 0xff || what == packet.NextHeaderIBA),
		recvs < 0 || recvs > maxRecvs:
		return nil, fmt.Errorf("%w: LNH %d, %#x, %d receives", errRawService, kind, what, recvs)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, rdma.ErrClosed
	case p.pairs[s] != nil:
		return nil, fmt.Errorf("%w: %#x belongs to another queue pair", errRawService, what)
	}
	q := &Raw{port: p, service: s, recv: recv, recvs: recvQueue{ring: make([]Recv, recvs)}}
	p.pairs[s] = q
	return q, nil
}

// Close ends the queue pair. Posted receives complete as flushed.
func (q *Raw) Close() {
	p := q.port
	p.mu.Lock()
	if p.pairs[q.service] == q {
		delete(p.pairs, q.service)
	}
	p.mu.Unlock()
	q.flushAll()
}

func (q *Raw) flushAll() {
	q.mu.Lock()
	left := q.recvs.takeAll()
	q.mu.Unlock()
	for _, wr := range left {
		q.recv.Complete(Completion{ID: wr.ID, Received: true, Err: rdma.ErrFlushed})
	}
}

// PostRecv queues receives: memory for complete packets, from the LRH on,
// without the VCRC (packet.MaxRaw bytes at most). Receives may be posted until
// Close.
func (q *Raw) PostRecv(wrs ...Recv) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.recvs.push(wrs)
}

// Send sends a raw datagram of the queue pair's kind on the link. The errors
// are packet.Raw.AppendTo's and the link's.
func (q *Raw) Send(r packet.Raw) error {
	r.LRH.Next = q.service.kind
	if q.service.kind == packet.RawIPv6 {
		r.IPv6.NextHeader = uint8(q.service.protocol)
	} else {
		r.Ethertype = q.service.protocol
	}
	b, err := r.AppendTo(nil)
	if err == nil {
		err = q.port.link.Send(b)
	}
	if err == nil {
		q.port.counters.sent.packets.Add(1)
	}
	return err
}

// deliverPacket processes a received packet.
func (p *RawPort) deliverPacket(b []byte) {
	p.counters.received.packets.Add(1)
	if cause := p.receivePacket(b); cause != notDropped {
		p.counters.countDrop(cause)
	}
}

func (p *RawPort) receivePacket(b []byte) Drop {
	r, err := packet.ParseRaw(b)
	switch {
	case errors.Is(err, packet.ErrTransport): // C9-208
		return dropTransport
	case errors.Is(err, packet.ErrVCRC):
		return dropVCRC
	case errors.Is(err, packet.ErrNotRaw):
		return dropForm
	case err != nil:
		return dropLength
	}
	s := rawService{kind: r.LRH.Next, protocol: r.Ethertype}
	if s.kind == packet.RawIPv6 {
		s.protocol = uint16(r.IPv6.NextHeader)
	}
	p.mu.Lock()
	q := p.pairs[s]
	p.mu.Unlock()
	if q == nil {
		return dropDestQP
	}
	return q.fillRecv(b[:len(b)-packet.VCRCLen], len(r.Payload))
}

// fillRecv completes a receive with the packet b.
func (q *Raw) fillRecv(b []byte, payload int) Drop {
	q.mu.Lock()
	switch front := q.recvs.front(); {
	case front == nil:
		q.mu.Unlock()
		return dropNoRecv
	case len(front.Data) < len(b):
		q.mu.Unlock()
		return dropTooLong
	}
	wr := q.recvs.pop()
	err := placeBytes(wr.Data[:len(b)], b)
	q.mu.Unlock()
	if err == nil {
		q.port.counters.countMessage(payload)
	}
	q.recv.Complete(Completion{ID: wr.ID, Received: true, Bytes: len(b), Err: err})
	return notDropped
}
