package roce

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// loopbackAddr returns a loopback address where port 4791 is free.
func loopbackAddr() netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + rand.N(250)), byte(rand.N(256)), byte(1 + rand.N(250))})
}

// openUDPDevice returns a device on sockets.
func openUDPDevice(t testing.TB, addr netip.Addr) *Device {
	w, err := ListenUDP(addr)
	require.NoError(t, err)
	return openDevice(t, w, Config{})
}

// waitContext returns the context for waiting.
func waitContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestUDPWireUC sends messages over real sockets. They are cut and reassembled,
// and their ICRCs checked as far as possible.
func TestUDPWireUC(t *testing.T) {
	a, b := openUDPDevice(t, loopbackAddr()), openUDPDevice(t, loopbackAddr())
	cq := NewCompletionQueue(8)
	pd := b.NewProtectionDomain()
	mem := make([]byte, 100_000)
	region, err := pd.Register(mem, rdma.RemoteWrite)
	require.NoError(t, err)
	to, err := pd.NewUC(UCConfig{Recv: cq, Access: rdma.RemoteWrite})
	require.NoError(t, err)
	from, err := a.NewProtectionDomain().NewUC(UCConfig{})
	require.NoError(t, err)
	mtu := a.MaxPMTU()
	require.Equal(t, 4096, mtu)
	require.NoError(t, to.Connect(Peer{Address: Address{Addr: a.Addr()}, QP: from.Number(), PMTU: mtu, PSN: 9}, 0))
	require.NoError(t, from.Connect(Peer{Address: Address{Addr: b.Addr(), TrafficClass: 0x20}, QP: to.Number(), PMTU: mtu}, 9))
	for _, size := range []int{0, 1, 4097, 100_000} {
		recv := make([]byte, size)
		require.NoError(t, to.PostRecv(Recv{Data: recv}, Recv{}))
		data := patternBytes(size)
		require.NoError(t, from.Post(
			WR{Op: rdma.OpSend, Data: [][]byte{data}},
			WR{Op: rdma.OpWrite, Data: [][]byte{data}, Remote: rdma.Remote{STag: region.STag()}, Immediate: 5, WithImmediate: true},
		))
		for _, got := range [][]byte{recv, mem[:size]} {
			c, err := cq.Wait(waitContext(t))
			require.NoError(t, err)
			require.NoError(t, c.Err)
			assert.Equal(t, size, c.Bytes)
			assert.Equal(t, data, got)
		}
	}
	assert.Zero(t, b.Stats().Gaps)
	assert.Equal(t, [dropCauses]uint64{}, b.Stats().Dropped)
	assert.Equal(t, a.Stats().Sent.Packets, b.Stats().Received.Packets)
}

// TestUDPWireUD asks by unicast and multicast, and answers each sender.
func TestUDPWireUD(t *testing.T) {
	group := netip.AddrFrom4([4]byte{239, byte(rand.N(256)), byte(rand.N(256)), byte(rand.N(256))})
	a, b := openUDPDevice(t, loopbackAddr()), openUDPDevice(t, loopbackAddr())
	asked, answered := NewCompletionQueue(8), NewCompletionQueue(8)
	server, err := b.NewProtectionDomain().NewUD(UDConfig{Recv: asked})
	require.NoError(t, err)
	client, err := a.NewProtectionDomain().NewUD(UDConfig{Recv: answered})
	require.NoError(t, err)
	require.NoError(t, server.Start(qkey))
	require.NoError(t, client.Start(qkey))
	require.NoError(t, server.Join(group))
	unicast := Destination{Address: Address{Addr: b.Addr(), TrafficClass: 0x48, HopLimit: 33}, QP: server.Number(), QKey: qkey}
	multicast := Destination{Address: Address{Addr: group, HopLimit: 1}, QP: packet.MulticastQP, QKey: qkey}
	for _, to := range []Destination{unicast, multicast} {
		in, back := make([]byte, 100), make([]byte, 100)
		require.NoError(t, server.PostRecv(Recv{Data: in}))
		require.NoError(t, client.PostRecv(Recv{Data: back}))
		require.NoError(t, client.Post(WR{Op: rdma.OpSend, Data: [][]byte{[]byte("who?")}, To: to}))
		c, err := asked.Wait(waitContext(t))
		require.NoError(t, err)
		assert.Equal(t, Source{Addr: a.Addr(), QP: client.Number(), Multicast: to == multicast}, c.From)
		assert.Equal(t, "who?", string(in[GRHLen:c.Bytes]))
		assert.Equal(t, to.Addr.AsSlice(), in[36:40], "the IPv4 header names the destination")
		assert.Equal(t, to.TrafficClass, in[21])
		assert.Equal(t, to.HopLimit, in[28])
		require.NoError(t, server.Post(WR{
			Op: rdma.OpSend, Data: [][]byte{[]byte("I")},
			To: Destination{Address: Address{Addr: c.From.Addr}, QP: c.From.QP, QKey: qkey},
		}))
		c, err = answered.Wait(waitContext(t))
		require.NoError(t, err)
		assert.Equal(t, b.Addr(), c.From.Addr)
		assert.Equal(t, "I", string(back[GRHLen:c.Bytes]))
	}
	require.NoError(t, server.Leave(group))
	assert.Equal(t, [dropCauses]uint64{}, b.Stats().Dropped)
}

// TestUDPWire6 is the same test over IPv6, whose ICRC covers no unseen fields.
func TestUDPWire6(t *testing.T) {
	w, err := ListenUDP(netip.IPv6Loopback())
	if err != nil {
		t.Skipf("no IPv6 here, or somebody has its port: %v", err)
	}
	d := openDevice(t, w, Config{})
	cq := NewCompletionQueue(8)
	q, err := d.NewProtectionDomain().NewUD(UDConfig{Recv: cq})
	require.NoError(t, err)
	require.NoError(t, q.Start(qkey))
	mem := make([]byte, 100)
	require.NoError(t, q.PostRecv(Recv{Data: mem}))
	to := Destination{Address: Address{Addr: d.Addr(), TrafficClass: 0x48, HopLimit: 33}, QP: q.Number(), QKey: qkey}
	require.NoError(t, q.Post(WR{Op: rdma.OpSend, Data: [][]byte{[]byte("hello")}, To: to}))
	c, err := cq.Wait(waitContext(t))
	require.NoError(t, err)
	assert.Equal(t, "hello", string(mem[GRHLen:c.Bytes]))
	assert.Equal(t, []byte{0x64, 0x80}, mem[:2], "version and traffic class")
	assert.EqualValues(t, 33, mem[7])
}

func TestListenUDPErrors(t *testing.T) {
	for _, addr := range []string{"0.0.0.0", "::", "239.0.0.1", "192.0.2.77"} {
		_, err := ListenUDP(netip.MustParseAddr(addr))
		require.Error(t, err, addr)
	}
	_, err := ListenUDP(netip.Addr{})
	require.Error(t, err)
	w, err := ListenUDP(loopbackAddr())
	require.NoError(t, err)
	_, err = ListenUDP(w.Addr())
	require.ErrorIs(t, err, unix.EADDRINUSE)
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Serve(nil), rdma.ErrClosed)
	require.ErrorIs(t, w.Join(netip.MustParseAddr("239.0.0.1")), rdma.ErrClosed)
	from, err := LocalAddr(netip.MustParseAddr("127.0.0.9"))
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1", from.String())
}

// TestAllocations checks that neither end allocates for a message over sockets.
func TestAllocations(t *testing.T) {
	if racetest.Enabled {
		t.Skip("the race detector allocates")
	}
	a, b := openUDPDevice(t, loopbackAddr()), openUDPDevice(t, loopbackAddr())
	cq := NewCompletionQueue(8)
	to, err := b.NewProtectionDomain().NewUD(UDConfig{Recv: cq})
	require.NoError(t, err)
	from, err := a.NewProtectionDomain().NewUD(UDConfig{})
	require.NoError(t, err)
	require.NoError(t, to.Start(qkey))
	require.NoError(t, from.Start(qkey))
	mem := make([]byte, 4096)
	wr := WR{Op: rdma.OpSend, Data: [][]byte{patternBytes(1000)}, To: Destination{Address: Address{Addr: b.Addr()}, QP: to.Number(), QKey: qkey}}
	ctx := context.Background()
	n := testing.AllocsPerRun(200, func() {
		_ = to.PostRecv(Recv{Data: mem})
		_ = from.Post(wr)
		_, _ = cq.Wait(ctx)
	})
	assert.Less(t, n, 1.0)
}

// BenchmarkUDP sends UC messages from one port on this host to another.
func BenchmarkUDP(bm *testing.B) {
	for _, size := range []int{64, 4096, 65536} {
		bm.Run(fmt.Sprint(size), func(bm *testing.B) {
			a, b := openUDPDevice(bm, loopbackAddr()), openUDPDevice(bm, loopbackAddr())
			cq := NewCompletionQueue(8)
			to, err := b.NewProtectionDomain().NewUC(UCConfig{Recv: cq})
			require.NoError(bm, err)
			from, err := a.NewProtectionDomain().NewUC(UCConfig{})
			require.NoError(bm, err)
			require.NoError(bm, to.Connect(Peer{Address: Address{Addr: a.Addr()}, QP: from.Number(), PMTU: 4096}, 0))
			require.NoError(bm, from.Connect(Peer{Address: Address{Addr: b.Addr()}, QP: to.Number(), PMTU: 4096}, 0))
			mem, wr := make([]byte, size), WR{Op: rdma.OpSend, Data: [][]byte{patternBytes(size)}}
			ctx := context.Background()
			bm.SetBytes(int64(size))
			bm.ReportAllocs()
			for bm.Loop() {
				_ = to.PostRecv(Recv{Data: mem})
				_ = from.Post(wr)
				_, _ = cq.Wait(ctx)
			}
		})
	}
}
