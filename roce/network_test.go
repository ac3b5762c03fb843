package roce

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// A network joins wires in memory. What is sent on one is delivered before Send
// returns, or is lost, comes twice or late, as the chances say.
type network struct {
	mu    sync.Mutex
	wires map[netip.Addr]*memWire

	random            *rand.Rand // nil: nothing of the kind
	lose, twice, late float64
	late1             []Datagram // overtaken by those behind it
	lost              int
}

func newNetwork() *network { return &network{wires: map[netip.Addr]*memWire{}} }

// A memWire is one port.
type memWire struct {
	net     *network
	addr    netip.Addr
	max     int
	serving chan struct{}
	stop    chan struct{}
	once    sync.Once
	deliver func([]Datagram)
	handing sync.Mutex
	groups  map[netip.Addr]bool
	sent    []Datagram // copies, where log is set
	log     bool
	refuse  map[netip.Addr]error // where nothing can be sent to
}

func (n *network) wire(addr string) *memWire {
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
func (w *memWire) MaxOctets() int   { return w.max }

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
			d.Octets = append([]byte(nil), d.Octets...)
			w.sent = append(w.sent, d)
		}
		w.net.carry(d)
	}
	return len(all), nil
}

// carry takes a datagram to where it goes, and what it has overtaken behind it.
func (n *network) carry(d Datagram) {
	if n.random == nil {
		n.hand(d)
		return
	}
	switch chance := n.random.Float64(); {
	case chance < n.lose:
		n.lost++
	case chance < n.lose+n.twice:
		n.hand(d)
		n.hand(d)
	case chance < n.lose+n.twice+n.late:
		d.Octets = append([]byte(nil), d.Octets...)
		n.late1 = append(n.late1, d)
		return
	default:
		n.hand(d)
	}
	if len(n.late1) > 0 && n.random.IntN(3) == 0 {
		late := n.late1[0]
		n.late1 = n.late1[1:]
		n.hand(late)
	}
}

func (n *network) hand(d Datagram) {
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
		w.inject(d)
	}
}

// inject delivers a datagram, whoever sent it.
func (w *memWire) inject(d Datagram) {
	<-w.serving
	w.handing.Lock()
	defer w.handing.Unlock()
	one := [1]Datagram{d}
	w.deliver(one[:])
}

// put seals a packet and delivers it as if it came from an address.
func (w *memWire) put(from netip.Addr, p packet.Packet) {
	a := Address{Addr: w.addr}
	net := a.network(&memWire{addr: from})
	w.inject(Datagram{Network: net, Octets: new(packet.Check).AppendICRC(&net, p.AppendTo(nil))})
}

// device opens a device that the test closes.
func device(t testing.TB, w Wire, cfg Config) *Device {
	d := Open(w, cfg)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// log keeps completions.
type log struct {
	mu  sync.Mutex
	all []Completion
}

func (l *log) Complete(c Completion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, c)
}

// take returns what has completed since the last time.
func (l *log) take() []Completion {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}
