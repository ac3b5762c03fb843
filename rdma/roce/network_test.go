package roce

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A memNetwork joins wires in memory. It delivers a sent datagram before Send
// returns, or loses, repeats or delays it, with the given chances.
type memNetwork struct {
	mu    sync.Mutex
	wires map[netip.Addr]*memWire

	random            *rand.Rand // nil: no random faults
	lose, twice, late float64
	late1             []Datagram // overtaken by later ones
	lost              int
}

func newNetwork() *memNetwork { return &memNetwork{wires: map[netip.Addr]*memWire{}} }

// A memWire is one port.
type memWire struct {
	net       *memNetwork
	addr      netip.Addr
	max       int
	serving   chan struct{}
	stop      chan struct{}
	once      sync.Once
	deliver   func([]Datagram)
	deliverMu sync.Mutex
	groups    map[netip.Addr]bool
	sent      []Datagram // copies, if log is set
	log       bool
	refuse    map[netip.Addr]error // unreachable destinations
}

func (n *memNetwork) newWire(addr string) *memWire {
	w := &memWire{
		net: n, addr: netip.MustParseAddr(addr), max: 4200, serving: make(chan struct{}), stop: make(chan struct{}),
		groups: map[netip.Addr]bool{}, refuse: map[netip.Addr]error{},
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wires[w.addr] = w
	return w
}

func (w *memWire) Addr() netip.Addr { return w.addr }
func (w *memWire) MaxBytes() int    { return w.max }

func (w *memWire) Serve(deliver func([]Datagram)) error {
	w.deliver = deliver
	close(w.serving)
	<-w.stop
	return rdma.ErrClosed
}

func (w *memWire) Close() error {
	w.once.Do(func() { close(w.stop) })
	return nil
}

func (w *memWire) Join(g netip.Addr) error {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.groups[g] = true
	return nil
}

func (w *memWire) Leave(g netip.Addr) error {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	delete(w.groups, g)
	return nil
}

func (w *memWire) Send(all []Datagram) (int, error) {
	for i, d := range all {
		to := addrOf(d.Dst)
		if err := w.refuse[to]; err != nil {
			return i, err
		}
		if w.log {
			d.Bytes = append([]byte(nil), d.Bytes...)
			w.sent = append(w.sent, d)
		}
		w.net.carryDatagram(d)
	}
	return len(all), nil
}

// carryDatagram delivers a datagram, and then the datagrams that it has overtaken.
func (n *memNetwork) carryDatagram(d Datagram) {
	if n.random == nil {
		n.deliverTo(d)
		return
	}
	switch chance := n.random.Float64(); {
	case chance < n.lose:
		n.lost++
	case chance < n.lose+n.twice:
		n.deliverTo(d)
		n.deliverTo(d)
	case chance < n.lose+n.twice+n.late:
		d.Bytes = append([]byte(nil), d.Bytes...)
		n.late1 = append(n.late1, d)
		return
	default:
		n.deliverTo(d)
	}
	if len(n.late1) > 0 && n.random.IntN(3) == 0 {
		late := n.late1[0]
		n.late1 = n.late1[1:]
		n.deliverTo(late)
	}
}

func (n *memNetwork) deliverTo(d Datagram) {
	n.mu.Lock()
	to := addrOf(d.Dst)
	var wires []*memWire
	if w := n.wires[to]; w != nil {
		wires = append(wires, w)
	}
	for _, w := range n.wires {
		if w.groups[to] {
			wires = append(wires, w)
		}
	}
	n.mu.Unlock()
	for _, w := range wires {
		w.injectDatagram(d)
	}
}

// injectDatagram delivers a datagram from any sender.
func (w *memWire) injectDatagram(d Datagram) {
	<-w.serving
	w.deliverMu.Lock()
	defer w.deliverMu.Unlock()
	one := [1]Datagram{d}
	w.deliver(one[:])
}

// injectPacket seals a packet and delivers it as if from the given address.
func (w *memWire) injectPacket(from netip.Addr, p packet.Packet) {
	a := Address{Addr: w.addr}
	net := a.networkHeader(&memWire{addr: from})
	w.injectDatagram(Datagram{Network: net, Bytes: new(packet.Check).AppendICRC(&net, p.AppendTo(nil))})
}

// openDevice opens a device that the test closes.
func openDevice(t testing.TB, w Wire, cfg Config) *Device {
	d := Open(w, cfg)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// completionLog keeps completions.
type completionLog struct {
	mu  sync.Mutex
	all []Completion
}

func (l *completionLog) Complete(c Completion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, c)
}

// takeAll returns the completions since the last call.
func (l *completionLog) takeAll() []Completion {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}
