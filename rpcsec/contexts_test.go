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
	table := newTable(defaultMaxContexts)
	party := func(i int) fairshare.Name { return fairshare.PartyOfIP(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})) }
	add := func(i int) *established {
		k := lasting()
		if !table.add(k, party(i)) {
			t.Fatal("no place")
		}
		return k
	}
	var small []*established
	for range 10 {
		small = append(small, add(1))
	}
	used, lately := add(2), add(2)
	require.Same(t, used, table.take(used.handle[:]))
	var last *established
	for i := range 70000 - 12 {
		last = add(2)
		if i == 60000 {
			require.Same(t, lately, table.take(lately.handle[:]))
			table.give(lately)
		}
	}
	n, evicted, _ := table.held()
	assert.Equal(t, 65536, n, "R2203-5.4-2")
	assert.EqualValues(t, 70000-65536, evicted)
	for _, k := range append(small, used, lately, last) {
		assert.NotNil(t, table.take(k.handle[:]))
	}
	table.give(used)

	full := newTable(2)
	for range 2 {
		k := lasting()
		require.True(t, full.add(k, party(1)))
		full.take(k.handle[:])
	}
	assert.False(t, full.add(lasting(), party(2)), "all are in use")
}

// TestBusyParty checks that a full table takes a context while any is idle, though
// calls use all those of the party with the most.
func TestBusyParty(t *testing.T) {
	party := func(i int) fairshare.Name { return fairshare.PartyOfIP(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})) }
	table := newTable(4)
	var all []*established
	for _, of := range []int{1, 1, 2, 3} {
		k := lasting()
		require.True(t, table.add(k, party(of)))
		all = append(all, k)
	}
	idle := all[2]
	for _, k := range all {
		if k != idle {
			require.Same(t, k, table.take(k.handle[:]))
		}
	}
	assert.True(t, table.add(lasting(), party(4)))
	assert.Nil(t, table.take(idle.handle[:]))
	for _, k := range all {
		assert.Equal(t, k == idle, k.place == nil)
	}
}

// TestTable checks the table's counts under random use.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	table := newTable(50)
	all := []*established{lasting()} // unknown
	for range 2000 {
		party := fairshare.PartyOfIP(netip.AddrFrom4([4]byte{192, 0, 2, byte(min(rng.IntN(20), rng.IntN(20)))}))
		k := lasting()
		switch rng.IntN(3) {
		case 0, 1:
			require.True(t, table.add(k, party))
			all = append(all, k)
		default:
			k = all[rng.IntN(len(all))]
			if known := table.take(k.handle[:]); known != nil {
				table.give(k)
				require.True(t, table.remove(k))
			}
			require.False(t, table.remove(k))
		}
		held := 0
		require.Len(t, table.parties, len(table.largest))
		for i, p := range table.largest {
			require.Equal(t, i, p.place)
			require.Same(t, p, table.parties[p.name])
			require.LessOrEqual(t, p.contexts.Len(), table.largest[0].contexts.Len())
			held += p.contexts.Len()
		}
		require.Len(t, table.contexts, held)
		require.LessOrEqual(t, held, 50)
	}
}

// lasting returns a context with much time left.
func lasting() *established { return &established{end: time.Now().Add(time.Hour)} }

// TestIdleContexts checks that contexts that nobody ends go some time after their
// own end, while their party makes others.
func TestIdleContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable(100)
		a, b := fairshare.PartyOfIP(netip.MustParseAddr("192.0.2.1")), fairshare.PartyOfIP(netip.MustParseAddr("192.0.2.2"))
		for range 2 * expires {
			table.add(lasting(), a)
		}
		used := lasting()
		table.add(used, a)
		require.Same(t, used, table.take(used.handle[:]))
		time.Sleep(time.Hour)
		table.add(lasting(), a)
		n, _, expired := table.held()
		assert.Equal(t, 2*expires+2, n)
		assert.Zero(t, expired, "at the end itself they are good")
		time.Sleep(time.Nanosecond)
		table.add(lasting(), b)
		for _, left := range []int{expires + 4, 5, 6} { // those of b, in use, and new
			table.add(lasting(), a)
			n, evicted, _ := table.held()
			assert.Equal(t, left, n, "R2203-5.4-2")
			assert.Zero(t, evicted)
		}
		_, _, expired = table.held()
		assert.EqualValues(t, 2*expires, expired)
	})
}
