package delegation

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReclaim checks that unused grants are reclaimed first at a limit: grants
// on the same connection if its slots are used up, grants on the largest
// connection if the total is exhausted.
func TestReclaim(t *testing.T) {
	g := newTestGrantor(t, Config{Slots: 4, Grants: 20})
	big, w := attachConn(g, 1)
	small, _ := attachConn(g, 1)
	for i := range 3 {
		grantObject(t, g, big, fmt.Sprint("big", i), 0)
	}
	try := func(c *Conn, key string) (Reason, []HeldObject) {
		a, why, _ := g.Prepare(c, []byte(key), 0)
		require.Zero(t, why)
		gt, why, fx := g.Commit(a, 0)
		g.Replied(c, gt)
		return why, fx.Ended
	}
	why, _ := try(big, "x")
	assert.Equal(t, ReasonLimit, why, "all are in use")
	w.w[2] = uint64(makeWord(1, 0))
	why, ended := try(big, "x")
	assert.Zero(t, why)
	assert.Len(t, ended, 1)
	assert.Equal(t, makeWord(3, 1), slotWord(w.w[2]), "the whole word")

	grantObject(t, g, small, "s0", 0)
	grantObject(t, g, small, "s1", 0)
	g.cfg.Grants = g.grantCount // the total is exhausted
	why, _ = try(small, "y")
	assert.Equal(t, ReasonLimit, why)
	w.w[3] = uint64(makeWord(1, 0))
	why, ended = try(small, "y")
	assert.Zero(t, why)
	assert.Len(t, ended, 1)

	// A change does not wait for unused grants.
	w.w[1] = uint64(makeWord(1, 0))
	var ch Change
	ready, fx := g.Change(&ch, nil, []byte("big0"), 0)
	assert.True(t, ready)
	assert.Empty(t, fx.Recalls)
	assert.Equal(t, makeWord(2, 0), slotWord(w.w[1]))
	assert.EqualValues(t, 3, g.Stats().Reclaimed)
	// A nonsensical word does not count as unused.
	w.w[2] = 0
	ready, fx = g.Change(&ch, nil, []byte("x"), 0)
	assert.False(t, ready)
	assert.Len(t, fx.Recalls, 1)
	assert.Equal(t, makeWord(4, 0), slotWord(w.w[2]))
}

// TestHeld checks that a client that acquires an object that it holds has lost
// track of its grant, which is recalled. An unused grant is immediately
// replaced with one that has another generation: an operation in flight for the
// first grant finds that its generation is gone.
func TestHeld(t *testing.T) {
	g := newTestGrantor(t, Config{})
	c, w := attachConn(g, 1)
	gt := grantObject(t, g, c, "a", 0)
	_, why, fx := g.Prepare(c, []byte("a"), 0)
	assert.Equal(t, ReasonHeld, why)
	require.Len(t, fx.Recalls, 1)
	_, why, fx = g.Prepare(c, []byte("a"), 0)
	assert.Equal(t, ReasonHeld, why)
	assert.Empty(t, fx.Recalls, "no second recall")
	g.Immediate(c, returnedMessage(gt))
	gt = grantObject(t, g, c, "a", 0)
	w.w[gt.Slot] = uint64(makeWord(gt.Generation, 0))
	a, why, fx := g.Prepare(c, []byte("a"), 0)
	require.Zero(t, why)
	assert.Empty(t, fx.Recalls)
	assert.Len(t, fx.Ended, 1, "unused")
	assert.Equal(t, makeWord(gt.Generation+1, 0), slotWord(w.w[gt.Slot]), "before anything is granted")
	assert.Zero(t, g.Stats().InForce)
	again, why, _ := g.Commit(a, 0)
	require.Zero(t, why)
	assert.Equal(t, Grant{gt.Slot, gt.Generation + 2}, again)
	assert.Equal(t, 1, g.Stats().InForce)
}

// TestOwnChange checks that a client's own changes do not recall its grant, but
// make the object contended as other changes do.
func TestOwnChange(t *testing.T) {
	g := newTestGrantor(t, Config{})
	mine, _ := attachConn(g, 1)
	theirs, _ := attachConn(g, 1)
	grantObject(t, g, mine, "a", 0)
	var ch Change
	ready, fx := g.Change(&ch, mine, []byte("a"), 0)
	assert.True(t, ready)
	assert.Empty(t, fx)
	assert.Equal(t, ReasonContended, prepareReason(g, theirs, "a", 0))
	ready, _ = g.Change(&ch, mine, []byte("a"), 0)
	assert.True(t, ready, "the same object twice")
	g.Done(&ch)
	gt := grantObject(t, g, theirs, "a", 0)
	ready, fx = g.Change(&ch, mine, []byte("a"), 0)
	assert.False(t, ready)
	require.Len(t, fx.Recalls, 1)
	assert.Same(t, theirs, fx.Recalls[0].Conn)
	ready, _ = g.Change(&ch, mine, []byte("b"), 0)
	assert.False(t, ready, "it still waits for the first")
	fx = g.Immediate(theirs, returnedMessage(gt))
	assert.Equal(t, []*Change{&ch}, fx.Ready)
	g.Done(&ch)
	g.Done(&ch)
	assert.Equal(t, 1, g.Stats().InForce)
}

// TestManyObjects checks a change that affects many objects, such as RENAME
// with four.
func TestManyObjects(t *testing.T) {
	g := newTestGrantor(t, Config{})
	c, _ := attachConn(g, 9)
	var ch Change
	for i := range 9 {
		key := fmt.Sprint(i)
		grantObject(t, g, c, key, 0)
		ready, fx := g.Change(&ch, nil, []byte(key), 0)
		assert.False(t, ready)
		assert.Len(t, fx.Recalls, 1)
	}
	for i := range 9 {
		fx := g.Immediate(c, returnedMessage(Grant{uint32(i + 1), 1}))
		assert.Equal(t, i == 8, len(fx.Ready) == 1)
	}
	g.Done(&ch)
	assert.Empty(t, g.table.held)
}

// TestPostpone checks that a postponed change's objects stay contended for one
// lease time, until its caller retries.
func TestPostpone(t *testing.T) {
	g := newTestGrantor(t, Config{})
	c, _ := attachConn(g, 1)
	gt := grantObject(t, g, c, "a", 0)
	var ch Change
	ready, fx := g.Change(&ch, nil, []byte("a"), 0)
	require.False(t, ready)
	g.Postpone(&ch, patience)
	g.Sent(fx.Recalls[0], patience)
	g.Immediate(c, returnedMessage(gt))
	assert.Equal(t, ReasonContended, prepareReason(g, c, "a", 2*time.Second))
	g.Tick(patience + lease - 1)
	assert.Equal(t, ReasonContended, prepareReason(g, c, "a", patience+lease-1))
	assert.Zero(t, prepareReason(g, c, "a", patience+lease))
	g.Tick(patience + lease)
	assert.Empty(t, g.table.held)

	// A change that waited for nothing leaves nothing behind.
	ready, _ = g.Change(&ch, nil, []byte("b"), 0)
	assert.True(t, ready)
	g.Postpone(&ch, 0)
	assert.Zero(t, prepareReason(g, c, "b", 0))
}

// TestSilence checks that a silent client loses all its grants. The recalls for
// its slots are posted gradually.
func TestSilence(t *testing.T) {
	g := newTestGrantor(t, Config{})
	c, w := attachConn(g, 1)
	var grants []Grant
	for i := range 3 {
		grants = append(grants, grantObject(t, g, c, fmt.Sprint(i), 0))
	}
	w.w[2] = uint64(makeWord(1, 0))
	for now := time.Duration(0); now < 3*lease; now += lease / samplesPerLease {
		w.w[LeaseWord]++ // any change to the word will do
		require.Empty(t, g.Tick(now))
	}
	var fx effects
	start := 3 * lease
	for fx.Ended == nil {
		at, ok := g.Next()
		require.True(t, ok)
		require.Less(t, at, start+lease+2*lease/samplesPerLease)
		fx = g.Tick(at)
	}
	assert.Len(t, fx.Ended, 3)
	require.Len(t, fx.Recalls, 1)
	for i := range 3 {
		assert.EqualValues(t, 2, slotWord(w.w[i+1]).generation(), i)
	}
	fx = g.Immediate(c, returnedMessage(grants[0]))
	require.Len(t, fx.Recalls, 1)
	assert.Equal(t, grants[2].Slot, fx.Recalls[0].Slot)
	assert.Empty(t, g.Immediate(c, returnedMessage(grants[2])))
	assert.Equal(t, Stats{Granted: 3, Recalled: 2, Returned: 2, Reclaimed: 1, Silent: 1}, g.Stats())
	assert.Zero(t, prepareReason(g, c, "0", 5*lease), "it may begin again")
}

// TestGenerationsEnd checks that a slot with no generations left is not used
// again.
func TestGenerationsEnd(t *testing.T) {
	g := newTestGrantor(t, Config{Slots: 2})
	c, w := attachConn(g, 1)
	grantObject(t, g, c, "a", 0)
	w.w[1] = uint64(makeWord(1, 0))
	a, why, _ := g.Prepare(c, []byte("a"), 0)
	require.Zero(t, why)
	g.Cancel(a)
	c.generations[1] = math.MaxUint32 - 2
	gt := grantObject(t, g, c, "a", 0)
	assert.EqualValues(t, math.MaxUint32-1, gt.Generation)
	w.w[1] = uint64(makeWord(gt.Generation, 0))
	a, why, _ = g.Prepare(c, []byte("a"), 0)
	require.Zero(t, why)
	_, why, _ = g.Commit(a, 0)
	assert.Equal(t, ReasonLimit, why)
}

// TestTimersBound checks that ended grants leave no timers, and that a connection has one timer: clients
// can acquire and return grants at any rate.
func TestTimersBound(t *testing.T) {
	g := newTestGrantor(t, Config{})
	c, _ := attachConn(g, 1)
	var now time.Duration
	for range 100 {
		now++
		gt := grantObject(t, g, c, "a", now)
		_, why, fx := g.Prepare(c, []byte("a"), now)
		require.Equal(t, ReasonHeld, why)
		g.Sent(fx.Recalls[0], now)
		g.Immediate(c, returnedMessage(gt))
	}
	assert.Len(t, g.timers, 1)
	grantObject(t, g, c, "a", now)
	g.Disconnect(c, true, now)
	assert.Empty(t, g.timers)

	c, _ = attachConn(g, 1)
	grantObject(t, g, c, "a", now)
	var ch Change
	_, fx := g.Change(&ch, nil, []byte("a"), now)
	g.Sent(fx.Recalls[0], now)
	g.Disconnect(c, false, now)
	require.Len(t, g.timers, 1)
	fx = g.Tick(now + trustTime(lease))
	assert.Equal(t, []*Change{&ch}, fx.Ready)
	assert.Empty(t, g.timers)
}
