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

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A registry is rpcbind's side of version 4, as far as registration needs.
type registry struct {
	mu   sync.Mutex
	list []RPCB
	full bool // accepts no more
}

func (g *registry) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
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

// registered returns the registrations of g.
func (g *registry) registered() []RPCB {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.list)
}

// serve lets g answer at l until the test ends.
func (g *registry) serve(t *testing.T, l net.Listener) {
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
func newHost(t *testing.T, g *registry) Host {
	h := Host{Socket: filepath.Join(t.TempDir(), "s"), Addr: silent(t).String()}
	l, err := net.Listen("unix", h.Socket)
	require.NoError(t, err)
	g.serve(t, l)
	return h
}

// silent returns an unused address that refuses connections.
func silent(t *testing.T) netip.AddrPort {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	sa, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(sa.(*unix.SockaddrInet4).Port))
}

// alive returns an address with a listener.
func alive(t *testing.T) netip.AddrPort {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return addrPort(l.Addr())
}

func ours() []Service {
	at := netip.AddrPortFrom(any6, 20049)
	return append(Services("rdma", at, nfs, 3), Services("tcp", netip.AddrPortFrom(any6, 2049), mount, 3)...)
}

// TestRegister checks that Register makes registrations and Unregister removes
// them.
func TestRegister(t *testing.T) {
	other := RPCB{mount, 1, NetidTCP, "0.0.0.0.8.1", "0"}
	g := &registry{list: []RPCB{other}}
	h := newHost(t, g)
	require.NoError(t, h.Register(t.Context(), ours()))
	require.NoError(t, h.Register(t.Context(), ours()), "as after a crash")
	assert.Equal(t, []RPCB{
		other,
		{nfs, 3, "rdma", "0.0.0.0.78.81", owner()}, // R8166-9-2
		{nfs, 3, "rdma6", "::.78.81", owner()},
		{mount, 3, "tcp", "0.0.0.0.8.1", owner()},
		{mount, 3, "tcp6", "::.8.1", owner()},
	}, g.registered())

	theirs := RPCB{mount, 3, "tcp", "0.0.0.0.9.9", "0"} // made since
	g.mu.Lock()
	g.list[3] = theirs
	g.mu.Unlock()
	require.NoError(t, h.Unregister(t.Context(), ours()))
	assert.Equal(t, []RPCB{other, theirs}, g.registered())
}

// TestRegisterLoopback checks that rpcbind is called over TCP if it has no
// local socket.
func TestRegisterLoopback(t *testing.T) {
	g := new(registry)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g.serve(t, l)
	h := Host{Socket: filepath.Join(t.TempDir(), "none"), Addr: l.Addr().String()}
	require.NoError(t, h.Register(t.Context(), ours()))
	assert.Len(t, g.registered(), 4)
	require.NoError(t, h.Unregister(t.Context(), ours()))
	assert.Empty(t, g.registered())
}

func TestNoRPCBind(t *testing.T) {
	h := Host{Socket: filepath.Join(t.TempDir(), "none"), Addr: silent(t).String()}
	for _, err := range []error{h.Register(t.Context(), ours()), h.Unregister(t.Context(), ours())} {
		require.ErrorIs(t, err, ErrNoRPCBind)
		assert.ErrorIs(t, err, unix.ENOENT)
		assert.ErrorIs(t, err, unix.ECONNREFUSED)
	}
}

// TestRegisterTaken checks that the registration of a living program stays, and
// that none of ours remains.
func TestRegisterTaken(t *testing.T) {
	for name, holder := range map[string]RPCB{
		"over TCP":             {mount, 3, NetidTCP, Uaddr(alive(t)), "superuser"},
		"no universal address": {mount, 3, NetidTCP, "somewhere", "superuser"},
		"over RDMA":            {nfs, 3, NetidRDMA6, Uaddr(alive(t)), "superuser"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &registry{list: []RPCB{holder}}
			err := newHost(t, g).Register(t.Context(), ours())
			var taken *TakenError
			require.ErrorAs(t, err, &taken)
			assert.Equal(t, holder, taken.Holder)
			assert.Equal(t, holder.Netid, taken.Want.Netid)
			assert.ErrorContains(t, err, "is registered already, at "+holder.Addr+" by superuser")
			assert.Equal(t, []RPCB{holder}, g.registered())
		})
	}
	t.Run("refused", func(t *testing.T) {
		g := &registry{full: true}
		err := newHost(t, g).Register(t.Context(), ours())
		assert.EqualError(t, err, "rpcbind: program 100003 version 3 on rdma is refused")
	})
}

// TestRegisterStale checks that the registration of a program that has gone is
// replaced, and that a program counts as gone only if its address can be
// probed.
func TestRegisterStale(t *testing.T) {
	gone := Uaddr(silent(t))
	g := &registry{list: []RPCB{{mount, 3, NetidTCP, gone, "superuser"}, {nfs, 3, NetidRDMA, gone, "superuser"}}}
	require.NoError(t, newHost(t, g).Register(t.Context(), ours()))
	assert.Len(t, g.registered(), 4)
	for _, m := range g.registered() {
		assert.NotEqual(t, gone, m.Addr)
	}
	assert.True(t, answers(t.Context(), RPCB{mount, 3, "local", "/run/x", ""}))
}

// TestRegisterUDP checks the same of registrations for UDP.
func TestRegisterUDP(t *testing.T) {
	nc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	at := nc.LocalAddr().(*net.UDPAddr).AddrPort()
	want := Services("udp", netip.AddrPortFrom(any6, 2049), mount, 3)
	g := &registry{list: []RPCB{{mount, 3, NetidUDP, Uaddr(at), "superuser"}}}
	h := newHost(t, g)
	var taken *TakenError
	require.ErrorAs(t, h.Register(t.Context(), want), &taken)
	require.NoError(t, nc.Close())
	require.NoError(t, h.Register(t.Context(), want))
	for _, m := range g.registered() {
		assert.NotEqual(t, Uaddr(at), m.Addr)
	}
}
