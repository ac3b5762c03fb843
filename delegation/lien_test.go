package delegation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// endedKeys returns the objects whose grants have ended.
func endedKeys(fx effects) (keys []string) {
	for _, o := range fx.Ended {
		keys = append(keys, o.(*heldObject).key)
	}
	return keys
}

// TestLien checks that a change on the grant's own connection recalls a grant
// with a Lien.
func TestLien(t *testing.T) {
	g := newTestGrantor(t, Config{})
	c, _ := attachConn(g, 1)
	a, why, _ := g.Prepare(c, []byte("a"), 0)
	require.Zero(t, why)
	a.Lien = true
	gt, why, _ := g.Commit(a, 0)
	require.Zero(t, why)
	g.Replied(c, gt)
	var ch Change
	ready, fx := g.Change(&ch, c, []byte("a"), 0)
	require.False(t, ready)
	require.Len(t, fx.Recalls, 1)
	assert.True(t, g.Waits(&ch))
	fx = g.Immediate(c, returnedMessage(gt))
	assert.Equal(t, []*Change{&ch}, fx.Ready)
	assert.Equal(t, []string{"a"}, endedKeys(fx))
	assert.False(t, g.Waits(&ch))
}

// TestMakeRoom checks that MakeRoom reclaims only unused grants with a Lien.
func TestMakeRoom(t *testing.T) {
	g := newTestGrantor(t, Config{})
	c, w := attachConn(g, 1)
	made, fx := g.MakeRoom(c, 0)
	assert.False(t, made, "no grant")
	assert.Empty(t, fx)
	grant := func(key string, lien bool, opens uint32) {
		a, why, _ := g.Prepare(c, []byte(key), 0)
		require.Zero(t, why)
		a.Lien = lien
		gt, why, _ := g.Commit(a, 0)
		require.Zero(t, why)
		g.Replied(c, gt)
		w.w[gt.Slot] = uint64(makeWord(gt.Generation, opens))
	}
	grant("unused, no Lien", false, 0)
	grant("used", true, 1)
	grant("unused", true, 0)
	made, fx = g.MakeRoom(c, 0)
	assert.True(t, made)
	assert.Equal(t, []string{"unused"}, endedKeys(fx))
	made, fx = g.MakeRoom(c, 0)
	assert.False(t, made)
	assert.Empty(t, fx)
	assert.Equal(t, 2, g.Held(c))
}

// TestMakeRoomParties checks which client loses an unused grant with a Lien to
// another client: one of the party that has the most Liens, and at least as many
// as the other's. If all are in use, a grant of a party with more is recalled.
func TestMakeRoomParties(t *testing.T) {
	g := newTestGrantor(t, Config{})
	conns, words := make(map[string]*Conn), make(map[string]*memWords)
	for _, name := range []string{"large", "a1", "a2", "b", "c"} {
		words[name] = &memWords{make([]uint64, g.cfg.Slots)}
		conns[name] = g.Attach(words[name], 10, name[:1], name)
	}
	grant := func(name string, n int, lien bool, opens uint32) {
		for range n {
			a, why, _ := g.Prepare(conns[name], fmt.Append(nil, g.grantCount), 0)
			require.Zero(t, why)
			a.Lien = lien
			gt, why, _ := g.Commit(a, 0)
			require.Zero(t, why)
			g.Replied(conns[name], gt)
			words[name].w[gt.Slot] = uint64(makeWord(gt.Generation, opens))
		}
	}
	checkMakeRoom := func(name, from string) {
		t.Helper()
		made, fx := g.MakeRoom(conns[name], 0)
		assert.Equal(t, from != "", made)
		assert.Empty(t, fx.Recalls)
		if made {
			require.Len(t, fx.Ended, 1)
			assert.Equal(t, from, fx.Ended[0].(*heldObject).conn.Owner)
		}
	}
	grant("large", 100, false, 0)
	grant("a1", 3, true, 0)
	grant("a2", 2, true, 0)
	grant("b", 2, true, 0)
	checkMakeRoom("b", "a1") // liens are compared by party, not by connection
	require.Equal(t, map[string]int{"a": 4, "b": 2}, g.liensByParty)
	conns["a2"].ended = true
	checkMakeRoom("b", "a1")
	checkMakeRoom("b", "a1")
	conns["a2"].ended = false

	grant("a1", 4, true, 1)
	require.Equal(t, map[string]int{"a": 6, "b": 2}, g.liensByParty)
	checkMakeRoom("a1", "a2")
	checkMakeRoom("a1", "a2")
	checkMakeRoom("a1", "") // b has fewer liens than a
	checkMakeRoom("c", "b")
	checkMakeRoom("c", "b")
	_, fx := g.MakeRoom(conns["c"], 0)
	require.Len(t, fx.Recalls, 1)
	assert.Equal(t, conns["a1"], fx.Recalls[0].Conn)
	grant("c", 3, true, 1)
	checkMakeRoom("c", "") // no party has at least two more liens than c's
	require.Equal(t, map[string]int{"a": 4, "c": 3}, g.liensByParty)
}

// TestMakeRoomOwn checks that a client loses one of its own unused grants if
// more connections than MakeRoom examines have Liens, all in use.
func TestMakeRoomOwn(t *testing.T) {
	g := newTestGrantor(t, Config{})
	grant := func(party string, n int, opens uint32) *Conn {
		w := &memWords{make([]uint64, g.cfg.Slots)}
		c := g.Attach(w, 10, party, nil)
		for range n {
			a, why, _ := g.Prepare(c, fmt.Append(nil, g.grantCount), 0)
			require.Zero(t, why)
			a.Lien = true
			gt, why, _ := g.Commit(a, 0)
			require.Zero(t, why)
			g.Replied(c, gt)
			w.w[gt.Slot] = uint64(makeWord(gt.Generation, opens))
		}
		return c
	}
	for i := range 2 * lienScan {
		grant(fmt.Sprint("used", i), 3, 1)
	}
	own := grant("own", 2, 0)
	for range 2 {
		made, fx := g.MakeRoom(own, 0)
		assert.True(t, made)
		require.Len(t, fx.Ended, 1)
		assert.Same(t, own, fx.Ended[0].(*heldObject).conn)
	}
	made, _ := g.MakeRoom(own, 0)
	assert.False(t, made)
}

// TestIdleLien checks that a grant with a Lien is reclaimed if unused for a
// long time, however many slots there are. A grant in use or without a Lien is
// not.
func TestIdleLien(t *testing.T) {
	g := newTestGrantor(t, Config{Slots: 4 * reclaimScan})
	c, w := attachConn(g, 4*reclaimScan)
	grant := func(key string, lien bool, opens uint32) Grant {
		a, why, _ := g.Prepare(c, []byte(key), 0)
		require.Zero(t, why)
		a.Lien = lien
		gt, why, _ := g.Commit(a, 0)
		require.Zero(t, why)
		g.Replied(c, gt)
		w.w[gt.Slot] = uint64(makeWord(gt.Generation, opens))
		return gt
	}
	for i := range 2 * reclaimScan {
		grant(fmt.Sprint("without", i), false, 0)
	}
	used := grant("used", true, 1)
	grant("unused", true, 0)
	var ended []string
	run := func(from, to time.Duration) {
		for now := from; now < to; now += g.Lease() / samplesPerLease {
			w.w[LeaseWord]++
			fx := g.Tick(now)
			assert.Empty(t, fx.Recalls)
			ended = append(ended, endedKeys(fx)...)
		}
	}
	run(0, idleLeases*g.Lease())
	assert.Empty(t, ended, "early")
	run(idleLeases*g.Lease(), (idleLeases+1)*g.Lease())
	assert.Equal(t, []string{"unused"}, ended)
	w.w[used.Slot] = uint64(makeWord(used.Generation, 0))
	run((idleLeases+1)*g.Lease(), 2*idleLeases*g.Lease())
	assert.Len(t, ended, 1, "counted from its last use")
	run(2*idleLeases*g.Lease(), (2*idleLeases+2)*g.Lease())
	assert.Equal(t, []string{"unused", "used"}, ended)
	assert.Equal(t, 2*reclaimScan, g.Held(c))
}
