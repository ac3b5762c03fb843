package rpcbind

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A fakeRPCBind is rpcbind's side in version 4, as far as registration needs.
type fakeRPCBind struct {
	mu   sync.Mutex
	list []RPCB
	full bool // accepts no more
}

func (g *fakeRPCBind) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.Proc == procDump {
		r.Head = appendRPCBs(r.Head, g.list)
		return c.Args.Done()
	}
	var m RPCB
	m.Decode(&c.Args)
	i := slices.IndexFunc(g.list, func(h RPCB) bool { return h.Prog == m.Prog && h.Vers == m.Vers && h.Netid == m.Netid })
	done := c.Proc == procUnset && i >= 0 || c.Proc == procSet && (i < 0 || g.list[i].Addr == m.Addr) && !g.full
	switch {
	case done && c.Proc == procUnset:
		g.list = slices.Delete(g.list, i, i+1)
	case done && i < 0:
		g.list = append(g.list, m)
	}
	r.Head = xdr.AppendBool(r.Head, done)
	return c.Args.Done()
}

// listRegistrations returns the registrations of g.
func (g *fakeRPCBind) listRegistrations() []RPCB {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.list)
}

// serveRegistry lets g answer at l until the test ends.
func (g *fakeRPCBind) serveRegistry(t *testing.T, l net.Listener) {
	m := new(oncrpc.Mux)
	m.Register(Program, RPCBVers4, g)
	s := &oncrpc.Server{Handler: m}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, s.Shutdown(context.Background()))
		assert.NoError(t, <-served)
		assert.Zero(t, buf.Default.Out(), "buffers")
	})
}

// newHost returns a host whose local socket g answers.
func newHost(t *testing.T, g *fakeRPCBind) Host {
	h := Host{Socket: filepath.Join(t.TempDir(), "s"), Addr: refusingAddr(t).String()}
	l, err := net.Listen("unix", h.Socket)
	require.NoError(t, err)
	g.serveRegistry(t, l)
	return h
}

// refusingAddr returns an unused address that refuses connections.
func refusingAddr(t *testing.T) netip.AddrPort {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	sa, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(sa.(*unix.SockaddrInet4).Port))
}

// listeningAddr returns an address with a listener.
func listeningAddr(t *testing.T) netip.AddrPort {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return addrPort(l.Addr())
}

func testServices() []Service {
	at := netip.AddrPortFrom(any6, 20049)
	return append(Services("rdma", at, nfs, 3), Services("tcp", netip.AddrPortFrom(any6, 2049), mount, 3)...)
}

// TestRegister checks that Register makes registrations and Unregister removes
// them.
func TestRegister(t *testing.T) {
	other := RPCB{mount, 1, NetidTCP, "0.0.0.0.8.1", "0"}
	g := &fakeRPCBind{list: []RPCB{other}}
	h := newHost(t, g)
	require.NoError(t, h.Register(t.Context(), testServices()))
	require.NoError(t, h.Register(t.Context(), testServices()), "as after a crash")
	assert.Equal(t, []RPCB{
		other,
		{nfs, 3, "rdma", "0.0.0.0.78.81", currentOwner()}, // R8166-9-2
		{nfs, 3, "rdma6", "::.78.81", currentOwner()},
		{mount, 3, "tcp", "0.0.0.0.8.1", currentOwner()},
		{mount, 3, "tcp6", "::.8.1", currentOwner()},
	}, g.listRegistrations())

	theirs := RPCB{mount, 3, "tcp", "0.0.0.0.9.9", "0"} // made since
	g.mu.Lock()
	g.list[3] = theirs
	g.mu.Unlock()
	require.NoError(t, h.Unregister(t.Context(), testServices()))
	assert.Equal(t, []RPCB{other, theirs}, g.listRegistrations())
}

// TestRegisterLoopback checks that rpcbind is called over TCP if it has no
// local socket.
func TestRegisterLoopback(t *testing.T) {
	g := new(fakeRPCBind)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g.serveRegistry(t, l)
	h := Host{Socket: filepath.Join(t.TempDir(), "none"), Addr: l.Addr().String()}
	require.NoError(t, h.Register(t.Context(), testServices()))
	assert.Len(t, g.listRegistrations(), 4)
	require.NoError(t, h.Unregister(t.Context(), testServices()))
	assert.Empty(t, g.listRegistrations())
}

func TestNoRPCBind(t *testing.T) {
	h := Host{Socket: filepath.Join(t.TempDir(), "none"), Addr: refusingAddr(t).String()}
	for _, err := range []error{h.Register(t.Context(), testServices()), h.Unregister(t.Context(), testServices())} {
		require.ErrorIs(t, err, ErrNoRPCBind)
		assert.ErrorIs(t, err, unix.ENOENT)
		assert.ErrorIs(t, err, unix.ECONNREFUSED)
	}
}

// TestRegisterTaken checks that the registration of a living program stays, and
// that none of ours remains.
func TestRegisterTaken(t *testing.T) {
	for name, holder := range map[string]RPCB{
		"over TCP":             {mount, 3, NetidTCP, Uaddr(listeningAddr(t)), "superuser"},
		"no universal address": {mount, 3, NetidTCP, "somewhere", "superuser"},
		"over RDMA":            {nfs, 3, NetidRDMA6, Uaddr(listeningAddr(t)), "superuser"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &fakeRPCBind{list: []RPCB{holder}}
			err := newHost(t, g).Register(t.Context(), testServices())
			var taken *TakenError
			require.ErrorAs(t, err, &taken)
			assert.Equal(t, holder, taken.Holder)
			assert.Equal(t, holder.Netid, taken.Want.Netid)
			assert.ErrorContains(t, err, "is registered already, at "+holder.Addr+" by superuser")
			assert.Equal(t, []RPCB{holder}, g.listRegistrations())
		})
	}
	t.Run("refused", func(t *testing.T) {
		g := &fakeRPCBind{full: true}
		err := newHost(t, g).Register(t.Context(), testServices())
		assert.EqualError(t, err, "rpcbind: program 100003 version 3 on rdma is rejected")
	})
}

// TestRegisterStale checks that the registration of a program that has gone is
// replaced, and that a program counts as gone only if its address can be
// probed.
func TestRegisterStale(t *testing.T) {
	gone := Uaddr(refusingAddr(t))
	g := &fakeRPCBind{list: []RPCB{{mount, 3, NetidTCP, gone, "superuser"}, {nfs, 3, NetidRDMA, gone, "superuser"}}}
	require.NoError(t, newHost(t, g).Register(t.Context(), testServices()))
	assert.Len(t, g.listRegistrations(), 4)
	for _, m := range g.listRegistrations() {
		assert.NotEqual(t, gone, m.Addr)
	}
	assert.True(t, isAnswering(t.Context(), RPCB{mount, 3, "local", "/run/x", ""}))
}

// TestRegisterUDP checks the same of registrations for UDP.
func TestRegisterUDP(t *testing.T) {
	nc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	at := nc.LocalAddr().(*net.UDPAddr).AddrPort()
	want := Services("udp", netip.AddrPortFrom(any6, 2049), mount, 3)
	g := &fakeRPCBind{list: []RPCB{{mount, 3, NetidUDP, Uaddr(at), "superuser"}}}
	h := newHost(t, g)
	var taken *TakenError
	require.ErrorAs(t, h.Register(t.Context(), want), &taken)
	require.NoError(t, nc.Close())
	require.NoError(t, h.Register(t.Context(), want))
	for _, m := range g.listRegistrations() {
		assert.NotEqual(t, Uaddr(at), m.Addr)
	}
}
