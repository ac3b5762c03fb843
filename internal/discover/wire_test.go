package discover

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A fakeNetwork joins wires in memory. It delivers a sent datagram before Send
// returns, or when all goroutines wait, unless the test's chance loses it.
type fakeNetwork struct {
	mu    sync.Mutex
	wires map[netip.Addr]*fakeWire
	fate  func() int // number of copies of the next datagram that arrive; nil: one
}

// A fakeWire is one port.
type fakeWire struct {
	net    *fakeNetwork
	addr   netip.Addr
	in     chan roce.Datagram
	stop   chan struct{}
	once   sync.Once
	groups map[netip.Addr]bool
}

func newFakeNetwork() *fakeNetwork { return &fakeNetwork{wires: make(map[netip.Addr]*fakeWire)} }

// newDevice returns a device of a host in the network, until the test ends or it is
// closed.
func (n *fakeNetwork) newDevice(t testing.TB, addr string) *roce.Device {
	w := &fakeWire{net: n, addr: netip.MustParseAddr(addr), in: make(chan roce.Datagram, 1<<12), stop: make(chan struct{}), groups: make(map[netip.Addr]bool)}
	n.mu.Lock()
	n.wires[w.addr] = w
	n.mu.Unlock()
	d := roce.Open(w, roce.Config{})
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func (w *fakeWire) Addr() netip.Addr { return w.addr }
func (w *fakeWire) MaxBytes() int    { return 1460 } // Ethernet's limit

func (w *fakeWire) Serve(deliver func([]roce.Datagram)) error {
	for {
		select {
		case d := <-w.in:
			deliver([]roce.Datagram{d})
		case <-w.stop:
			return rdma.ErrClosed
		}
	}
}

func (w *fakeWire) Close() error {
	w.once.Do(func() { close(w.stop) })
	return nil
}

func (w *fakeWire) Join(g netip.Addr) error {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.groups[g] = true
	return nil
}

func (w *fakeWire) Leave(g netip.Addr) error {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	delete(w.groups, g)
	return nil
}

func (w *fakeWire) Send(all []roce.Datagram) (int, error) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	for _, d := range all {
		d.Bytes = append([]byte(nil), d.Bytes...)
		copies := 1
		if w.net.fate != nil {
			copies = w.net.fate()
		}
		for range copies {
			w.net.deliver(d)
		}
	}
	return len(all), nil
}

func (n *fakeNetwork) deliver(d roce.Datagram) {
	to := netip.AddrFrom16(packet.GID(d.Dst)).Unmap()
	for _, w := range n.wires {
		if w.addr == to || w.groups[to] {
			select {
			case w.in <- d:
			default: // the receiver is too slow
			}
		}
	}
}
