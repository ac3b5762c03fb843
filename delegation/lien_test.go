package delegation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLien checks that a change on the grant's own connection recalls a grant
// with a Lien, and that the Lien is in Effects.Ended when the grant has ended.
func TestLien(t *testing.T) {
	g := newTestGrantor(t, Config{})
	c, _ := attachConn(g, 1)
	a, why, _ := g.Prepare(c, []byte("a"), 0)
	require.Zero(t, why)
	a.Lien = t
	gt, why, _ := g.Commit(a, 0)
	require.Zero(t, why)
	g.Replied(c, gt)
	var ch Change
	ready, fx := g.Change(&ch, c, []byte("a"), 0)
	require.False(t, ready)
	require.Len(t, fx.Recalls, 1)
	assert.True(t, g.Waits(&ch))
	fx = g.Immediate(c, returnedMessage(gt))
	assert.Equal(t, Effects{Ready: []*Change{&ch}, Ended: []any{t}}, fx)
	assert.False(t, g.Waits(&ch))
}

// TestMakeRoom checks that MakeRoom reclaims only unused grants with a Lien.
func TestMakeRoom(t *testing.T) {
	g := newTestGrantor(t, Config{})
	c, w := attachConn(g, 1)
	made, fx := g.MakeRoom(c, 0)
	assert.False(t, made, "no grant")
	assert.Empty(t, fx)
	grant := func(key string, lien any, opens uint32) {
		a, why, _ := g.Prepare(c, []byte(key), 0)
		require.Zero(t, why)
		a.Lien = lien
		gt, why, _ := g.Commit(a, 0)
		require.Zero(t, why)
		g.Replied(c, gt)
		w.w[gt.Slot] = uint64(makeWord(gt.Generation, opens))
	}
	grant("unused, no Lien", nil, 0)
	grant("used", "used", 1)
	grant("unused", "unused", 0)
	made, fx = g.MakeRoom(c, 0)
	assert.True(t, made)
	assert.Equal(t, Effects{Ended: []any{"unused"}}, fx)
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
		conns[name] = g.Attach(words[name], 10, name[:1], nil)
	}
	grant := func(name string, n int, lien any, opens uint32) {
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
	checkMakeRoom := func(name string, made bool, fx Effects) {
		t.Helper()
		gotMade, got := g.MakeRoom(conns[name], 0)
		assert.Equal(t, made, gotMade)
		assert.Equal(t, fx, got)
	}
	grant("large", 100, nil, 0)
	grant("a1", 3, "a1", 0)
	grant("a2", 2, "a2", 0)
	grant("b", 2, "b", 0)
	checkMakeRoom("b", true, Effects{Ended: []any{"a1"}}) // liens are compared by party, not by connection
	require.Equal(t, map[string]int{"a": 4, "b": 2}, g.liensByParty)
	conns["a2"].ended = true
	checkMakeRoom("b", true, Effects{Ended: []any{"a1"}})
	checkMakeRoom("b", true, Effects{Ended: []any{"a1"}})
	conns["a2"].ended = false

	grant("a1", 4, "a1", 1)
	require.Equal(t, map[string]int{"a": 6, "b": 2}, g.liensByParty)
	checkMakeRoom("a1", true, Effects{Ended: []any{"a2"}})
	checkMakeRoom("a1", true, Effects{Ended: []any{"a2"}})
	checkMakeRoom("a1", false, Effects{}) // b has fewer liens than a
	checkMakeRoom("c", true, Effects{Ended: []any{"b"}})
	checkMakeRoom("c", true, Effects{Ended: []any{"b"}})
	_, fx := g.MakeRoom(conns["c"], 0)
	require.Len(t, fx.Recalls, 1)
	assert.Equal(t, conns["a1"], fx.Recalls[0].Conn)
	grant("c", 3, "c", 1)
	checkMakeRoom("c", false, Effects{}) // no party has at least two more liens than c's
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
			a.Lien = party
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
		assert.Equal(t, Effects{Ended: []any{"own"}}, fx)
	}
	made, _ := g.MakeRoom(own, 0)
	assert.False(t, made)
}

// TestRecallAll checks that RecallAll reclaims unused grants, recalls the
// others, and makes earlier Acquisitions fail.
func TestRecallAll(t *testing.T) {
	g := newTestGrantor(t, Config{})
	c, w := attachConn(g, 4)
	idle, used := grantObject(t, g, c, "idle", 0), grantObject(t, g, c, "used", 0)
	w.w[idle.Slot] = uint64(makeWord(idle.Generation, 0))
	a, why, _ := g.Prepare(c, []byte("asked"), 0)
	require.Zero(t, why)
	assert.Equal(t, 2, g.Held(c))
	fx := g.RecallAll(0)
	assert.Len(t, fx.Ended, 1)
	assert.Equal(t, []Recall{{c, Immediate{KindRecall, used.Slot, used.Generation}}}, fx.Recalls)
	assert.Empty(t, g.RecallAll(0), "no second recall")
	_, why, _ = g.Commit(a, 0)
	assert.Equal(t, ReasonContended, why)
	g.Immediate(c, returnedMessage(used))
	assert.Zero(t, g.Held(c))
	assert.Zero(t, prepareReason(g, c, "used", 0), "it may be had again")
}

// TestIdleLien checks that a grant with a Lien is reclaimed if unused for a
// long time, however many slots there are. A grant in use or without a Lien is
// not.
func TestIdleLien(t *testing.T) {
	g := newTestGrantor(t, Config{Slots: 4 * reclaimScan})
	c, w := attachConn(g, 4*reclaimScan)
	grant := func(key string, lien any, opens uint32) Grant {
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
		grant(fmt.Sprint("without", i), nil, 0)
	}
	used := grant("used", "used", 1)
	grant("unused", "unused", 0)
	var ended []any
	run := func(from, to time.Duration) {
		for now := from; now < to; now += g.Lease() / samplesPerLease {
			w.w[LeaseWord]++
			fx := g.Tick(now)
			assert.Empty(t, fx.Recalls)
			ended = append(ended, fx.Ended...)
		}
	}
	run(0, idleLeases*g.Lease())
	assert.Empty(t, ended, "early")
	run(idleLeases*g.Lease(), (idleLeases+1)*g.Lease())
	assert.Equal(t, []any{"unused"}, ended)
	w.w[used.Slot] = uint64(makeWord(used.Generation, 0))
	run((idleLeases+1)*g.Lease(), 2*idleLeases*g.Lease())
	assert.Len(t, ended, 1, "counted from its last use")
	run(2*idleLeases*g.Lease(), (2*idleLeases+2)*g.Lease())
	assert.Equal(t, []any{"unused", "used"}, ended)
	assert.Equal(t, 2*reclaimScan, g.Held(c))
}
