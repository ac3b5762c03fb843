package fairshare

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestParts checks that no party gets more than its part, and that all together
// get no more than the total.
func TestParts(t *testing.T) {
	m := NewMemory(10, 6, NewPress(func(uint64) {}))
	a, b := m.Part(), m.Part()
	assert.EqualValues(t, 10, m.Limit())
	assert.True(t, a.TryAcquire(6))
	assert.False(t, a.TryAcquire(1), "it has its part")
	assert.False(t, b.TryAcquire(5), "not enough left")
	assert.True(t, b.TryAcquire(4), "a failed attempt takes no share")
	assert.EqualValues(t, 10, m.InUse())
	a.Release(6)
	assert.True(t, b.TryAcquire(2))
	b.Release(6)
	assert.Zero(t, m.InUse())

	one, two := a.Part(4), a.Part(4)
	assert.True(t, one.TryAcquire(4))
	assert.False(t, one.TryAcquire(1), "it has its part of the part")
	assert.False(t, two.TryAcquire(3), "not enough of the second")
	assert.True(t, two.TryAcquire(2))
	assert.EqualValues(t, 6, m.InUse())
	one.Release(4)
	two.Release(2)
	assert.Zero(t, m.InUse())
	assert.True(t, a.TryAcquire(6))
}

// TestAcquireWaits checks that a waiting caller gets released memory, or returns
// when its context is canceled and then holds nothing.
func TestAcquireWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(10, 6, NewPress(func(uint64) {}))
		a, b := m.Part(), m.Part().Part(6)
		require.True(t, a.TryAcquire(6))
		got := make(chan error)
		go func() { got <- b.Acquire(t.Context(), 6) }()
		synctest.Wait()
		assert.Equal(t, 1, m.press.waitingCalls())
		a.Release(6)
		require.NoError(t, <-got)
		assert.Zero(t, m.press.waitingCalls())

		for _, p := range []*Part{a, b} { // for the Memory's bytes, and for the part's own
			ctx, cancel := context.WithCancel(t.Context())
			go func() { got <- p.Acquire(ctx, 5) }()
			synctest.Wait()
			cancel()
			assert.ErrorIs(t, <-got, context.Canceled)
		}
		b.Release(6)
		assert.True(t, a.TryAcquire(6), "no share was kept")
		assert.True(t, b.TryAcquire(4))
		assert.Zero(t, m.press.waitingCalls())
	})
}

// TestPress checks that the press looks at once when the first call waits, then
// periodically, and not after the last wait. Sights of an earlier period have
// no effect.
func TestPress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var all []uint64
		p := NewPress(func(round uint64) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, round)
		})
		looks := func(n int) []uint64 {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			require.Len(t, all, n)
			return all
		}
		assert.Zero(t, p.longestWait())
		first := p.addWaiting()
		time.Sleep(time.Second)
		second := p.addWaiting()
		time.Sleep(PressTime)
		assert.Equal(t, PressTime+time.Second, p.longestWait())
		rounds := looks(2)
		assert.Equal(t, rounds[0]+1, rounds[1])
		p.removeWaiting(first)
		assert.Equal(t, PressTime, p.longestWait())
		time.Sleep(PressTime)
		looks(3)
		p.removeWaiting(second)
		assert.Zero(t, p.longestWait())
		time.Sleep(10 * PressTime)
		looks(3)
		first = p.addWaiting()
		synctest.Wait()
		time.Sleep(time.Millisecond)
		rounds = looks(4)
		assert.Greater(t, rounds[3], rounds[2]+1)
		p.removeWaiting(first)

		first = p.addWaiting()
		for range 2 { // the timer fired before it was stopped, and again
			p.lookIfDue()
		}
		time.Sleep(PressTime - time.Millisecond)
		looks(5)
		time.Sleep(2 * time.Millisecond)
		rounds = looks(6)
		assert.Equal(t, rounds[4]+1, rounds[5])
		p.removeWaiting(first)
	})
}

// TestStands checks that a long message in flight counts as a sign of life, and a
// trickle does not.
func TestStands(t *testing.T) {
	var s Sight
	for _, tt := range []struct {
		now    Sight
		stands bool
		why    string
	}{
		{Sight{Round: 2, Posted: 1}, false, "it is seen for the first time"},
		{Sight{Round: 3, Posted: 1}, true, "no progress"},
		{Sight{Round: 4, Posted: 1, Bytes: Bulk}, false, "bytes have"},
		{Sight{Round: 5, Posted: 1, Bytes: 2*Bulk - 1}, true, "too few have"},
		{Sight{Round: 6, Posted: 2, Done: 1, Bytes: 2 * Bulk}, false, "a piece is done"},
		{Sight{Round: 7, Posted: 2, Done: 2, Bytes: 2 * Bulk}, false, "all are"},
		{Sight{Round: 8, Posted: 2, Done: 2, Bytes: 2 * Bulk}, false, "no work"},
		{Sight{Round: 9, Posted: 3, Done: 2, Bytes: 2 * Bulk}, false, "there was no work"},
		{Sight{Round: 10, Posted: 3, Done: 2, Bytes: 2 * Bulk}, true, "there was"},
		{Sight{Round: 20, Posted: 3, Done: 2, Bytes: 2 * Bulk}, false, "it was seen long ago"},
	} {
		assert.Equal(t, tt.stands, s.Stands(tt.now), tt.why)
	}
}

// TestYields checks that the party with the most connections yields one to a party
// with fewer.
func TestYields(t *testing.T) {
	made := 0
	parties := NewParties(func() int { made++; return made })
	addr := func(host byte, port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(198, 51, 100, host), Port: port} }
	a := parties.Enter(addr(1, 1))
	assert.Same(t, a, parties.Enter(addr(1, 2)), "for any port")
	b := parties.Enter(addr(2, 1))
	assert.Equal(t, 2, made)
	assert.Same(t, a, parties.Yields(b))
	parties.Enter(addr(2, 2))
	assert.Nil(t, parties.Yields(b), "it would leave a fewer than b")
	parties.Leave(a)
	parties.Leave(a)
	assert.Equal(t, 1, parties.Len())
	assert.Nil(t, parties.Yields(b), "from itself")
}

// TestFull checks that the last places are for parties with few connections.
func TestFull(t *testing.T) {
	parties := NewParties(func() int { return 0 })
	p := parties.Enter(&net.TCPAddr{IP: net.IPv4(198, 51, 100, 1)})
	for range fewConns - 1 {
		parties.Enter(&net.TCPAddr{IP: net.IPv4(198, 51, 100, 1)})
	}
	assert.True(t, p.Few())
	assert.False(t, parties.Full(p, 15, 16))
	assert.True(t, parties.Full(p, 16, 16))
	parties.Enter(&net.TCPAddr{IP: net.IPv4(198, 51, 100, 1)})
	assert.False(t, p.Few())
	assert.False(t, parties.Full(p, 13, 16))
	assert.True(t, parties.Full(p, 14, 16))
	assert.False(t, parties.Full(p, 6, 7), "an eighth is less than one")
	assert.Equal(t, [2]int{1, 128}, [2]int{MaxLeaving(7), MaxLeaving(1024)})
}

func TestOf(t *testing.T) {
	of := func(ip string) string { return PartyOf(&net.TCPAddr{IP: net.ParseIP(ip), Port: 1}).String() }
	assert.Equal(t, "192.0.2.1/32", of("192.0.2.1"))
	assert.Equal(t, "192.0.2.1/32", of("::ffff:192.0.2.1"))
	assert.Equal(t, "2001:db8:0:1::/64", of("2001:db8:0:1::1"))
	assert.Equal(t, of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"))
	assert.NotEqual(t, of("2001:db8:0:1::1"), of("2001:db8:0:2::1"))
	assert.Equal(t, of("2001:db8:0:1::1"), PartyOf(&net.TCPAddr{IP: net.ParseIP("2001:db8:0:1::1"), Zone: "eth0"}).String())
	assert.Zero(t, PartyOf(&net.TCPAddr{}))
	assert.Zero(t, PartyOf(&net.UnixAddr{Name: "x"}))

	// Each host on a link is a party, and equal addresses on two links are two
	// parties.
	linked := func(ip, zone string, port int) Name {
		return PartyOf(&net.TCPAddr{IP: net.ParseIP(ip), Zone: zone, Port: port})
	}
	assert.Equal(t, "fe80::1%eth0/128", linked("fe80::1", "eth0", 1).String())
	assert.Equal(t, linked("fe80::1", "eth0", 1), linked("fe80::1", "eth0", 2))
	assert.NotEqual(t, linked("fe80::1", "eth0", 1), linked("fe80::2", "eth0", 1))
	assert.NotEqual(t, linked("fe80::1", "eth0", 1), linked("fe80::1", "eth1", 1))
	parties := NewParties(func() int { return 0 })
	parties.Enter(&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"})
	parties.Enter(&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth1"})
	assert.Equal(t, 2, parties.Len())
}
