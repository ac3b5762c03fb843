package discover

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/roce"
	"github.com/nfsrdma/nfsrdma/roce/packet"
)

// A network joins wires in memory. It delivers a sent datagram before Send
// returns, or when all goroutines wait, unless the test's chance loses it.
type network struct {
	mu    sync.Mutex
	wires map[netip.Addr]*wire
	fate  func() int // how often the next datagram arrives; nil: once
}

// A wire is one port.
type wire struct {
	net    *network
	addr   netip.Addr
	in     chan roce.Datagram
	stop   chan struct{}
	once   sync.Once
	groups map[netip.Addr]bool
}

func newNetwork() *network { return &network{wires: make(map[netip.Addr]*wire)} }

// device is a host in the network, until the test ends or it is closed.
func (n *network) device(t testing.TB, addr string) *roce.Device {
	w := &wire{net: n, addr: netip.MustParseAddr(addr), in: make(chan roce.Datagram, 1<<12), stop: make(chan struct{}), groups: make(map[netip.Addr]bool)}
	n.mu.Lock()
	n.wires[w.addr] = w
	n.mu.Unlock()
	d := roce.Open(w, roce.Config{})
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func (w *wire) Addr() netip.Addr { return w.addr }
func (w *wire) MaxBytes() int    { return 1460 } // of Ethernet

func (w *wire) Serve(deliver func([]roce.Datagram)) error {
	for {
		select {
		case d := <-w.in:
			deliver([]roce.Datagram{d})
		case <-w.stop:
			return rdma.ErrClosed
		}
	}
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.stop) })
	return nil
}

func (w *wire) Join(g netip.Addr) error {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.groups[g] = true
	return nil
}

func (w *wire) Leave(g netip.Addr) error {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	delete(w.groups, g)
	return nil
}

func (w *wire) Send(all []roce.Datagram) (int, error) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	for _, d := range all {
		d.Bytes = append([]byte(nil), d.Bytes...)
		copies := 1
		if w.net.fate != nil {
			copies = w.net.fate()
		}
		for range copies {
			w.net.carry(d)
		}
	}
	return len(all), nil
}

func (n *network) carry(d roce.Datagram) {
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
