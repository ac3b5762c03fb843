package rpcsec

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// TestManyContexts checks that 70,000 contexts leave 65,536, without those in use,
// and that a party with many displaces only its own.
func TestManyContexts(t *testing.T) {
	table := newContextTable(defaultMaxContexts)
	party := func(i int) fairshare.Name { return fairshare.PartyOfIP(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})) }
	add := func(i int) *serverContext {
		k := newLongContext()
		if !table.add(k, party(i)) {
			t.Fatal("no place")
		}
		return k
	}
	var small []*serverContext
	for range 10 {
		small = append(small, add(1))
	}
	used, lately := add(2), add(2)
	require.Same(t, used, table.acquire(used.handle[:]))
	var last *serverContext
	for i := range 70000 - 12 {
		last = add(2)
		if i == 60000 {
			require.Same(t, lately, table.acquire(lately.handle[:]))
			table.release(lately)
		}
	}
	n, evicted, _ := table.stats()
	assert.Equal(t, 65536, n, "R2203-5.4-2")
	assert.EqualValues(t, 70000-65536, evicted)
	for _, k := range append(small, used, lately, last) {
		assert.NotNil(t, table.acquire(k.handle[:]))
	}
	table.release(used)

	full := newContextTable(2)
	for range 2 {
		k := newLongContext()
		require.True(t, full.add(k, party(1)))
		full.acquire(k.handle[:])
	}
	assert.False(t, full.add(newLongContext(), party(2)), "all are in use")
}

// TestBusyParty checks that a full table takes a context while any is idle, though
// calls use all those of the party with the most.
func TestBusyParty(t *testing.T) {
	party := func(i int) fairshare.Name { return fairshare.PartyOfIP(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})) }
	table := newContextTable(4)
	var all []*serverContext
	for _, of := range []int{1, 1, 2, 3} {
		k := newLongContext()
		require.True(t, table.add(k, party(of)))
		all = append(all, k)
	}
	idle := all[2]
	for _, k := range all {
		if k != idle {
			require.Same(t, k, table.acquire(k.handle[:]))
		}
	}
	assert.True(t, table.add(newLongContext(), party(4)))
	assert.Nil(t, table.acquire(idle.handle[:]))
	for _, k := range all {
		assert.Equal(t, k == idle, k.element == nil)
	}
}

// TestTable checks the table's counts under random use.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	table := newContextTable(50)
	all := []*serverContext{newLongContext()} // unknown
	for range 2000 {
		party := fairshare.PartyOfIP(netip.AddrFrom4([4]byte{192, 0, 2, byte(min(rng.IntN(20), rng.IntN(20)))}))
		k := newLongContext()
		switch rng.IntN(3) {
		case 0, 1:
			require.True(t, table.add(k, party))
			all = append(all, k)
		default:
			k = all[rng.IntN(len(all))]
			if known := table.acquire(k.handle[:]); known != nil {
				table.release(k)
				require.True(t, table.remove(k))
			}
			require.False(t, table.remove(k))
		}
		held := 0
		require.Len(t, table.parties, len(table.largest))
		for i, p := range table.largest {
			require.Equal(t, i, p.heapIndex)
			require.Same(t, p, table.parties[p.name])
			require.LessOrEqual(t, p.contexts.Len(), table.largest[0].contexts.Len())
			held += p.contexts.Len()
		}
		require.Len(t, table.contexts, held)
		require.LessOrEqual(t, held, 50)
	}
}

// newLongContext returns a context with much time left.
func newLongContext() *serverContext { return &serverContext{expires: time.Now().Add(time.Hour)} }

// TestIdleContexts checks that contexts that no client destroys are removed some time
// after their own end, while their party makes others.
func TestIdleContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newContextTable(100)
		a, b := fairshare.PartyOfIP(netip.MustParseAddr("192.0.2.1")), fairshare.PartyOfIP(netip.MustParseAddr("192.0.2.2"))
		for range 2 * maxExpiredRemovals {
			table.add(newLongContext(), a)
		}
		used := newLongContext()
		table.add(used, a)
		require.Same(t, used, table.acquire(used.handle[:]))
		time.Sleep(time.Hour)
		table.add(newLongContext(), a)
		n, _, expired := table.stats()
		assert.Equal(t, 2*maxExpiredRemovals+2, n)
		assert.Zero(t, expired, "at the end itself they are good")
		time.Sleep(time.Nanosecond)
		table.add(newLongContext(), b)
		for _, left := range []int{maxExpiredRemovals + 4, 5, 6} { // those of b, in use, and new
			table.add(newLongContext(), a)
			n, evicted, _ := table.stats()
			assert.Equal(t, left, n, "R2203-5.4-2")
			assert.Zero(t, evicted)
		}
		_, _, expired = table.stats()
		assert.EqualValues(t, 2*maxExpiredRemovals, expired)
	})
}
