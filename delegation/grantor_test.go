package delegation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const lease = 10 * time.Second

func newTestGrantor(t testing.TB, c Config) *testGrantor {
	t.Helper()
	return newTableGrantor(c)
}

// attachConn connects a client whose words are changed by the test alone.
func attachConn(g *testGrantor, window int) (*Conn, *memWords) {
	w := &memWords{make([]uint64, g.cfg.Slots)}
	return g.Attach(w, window, "", nil), w
}

// grantObject grants an object and notes that the reply was posted.
func grantObject(t testing.TB, g *testGrantor, c *Conn, key string, now time.Duration) Grant {
	t.Helper()
	a, why, _ := g.Prepare(c, []byte(key), now)
	require.Zero(t, why)
	gt, why, _ := g.Commit(a, now)
	require.Zero(t, why)
	g.Replied(c, gt)
	return gt
}

func prepareReason(g *testGrantor, c *Conn, key string, now time.Duration) Reason {
	a, why, _ := g.Prepare(c, []byte(key), now)
	if why == 0 {
		g.Cancel(a)
	}
	return why
}

func returnedMessage(gt Grant) [8]byte {
	return Immediate{KindReturned, gt.Slot, gt.Generation}.Bytes()
}

func TestConfig(t *testing.T) {
	g := newTestGrantor(t, Config{})
	assert.Equal(t, lease, g.Lease())
	assert.Equal(t, Config{Lease: lease, Slots: 65536, Grants: 131072}, g.cfg)
	for _, c := range []Config{
		{Lease: time.Microsecond}, {Lease: -1}, {Slots: 1}, {Slots: maxSlots + 1}, {Grants: -1},
	} {
		_, err := NewGrantor(c)
		assert.Error(t, err, c)
	}
}

// TestDeadline checks that a client that renews its lease but does not return a
// recalled grant delays a change for one lease after the recall was sent. The
// client then gets no grants for ten leases, and its slot is not reused before
// the return.
func TestDeadline(t *testing.T) {
	g := newTestGrantor(t, Config{Slots: 2})
	c, w := attachConn(g, 1)
	gt := grantObject(t, g, c, "a", 0)
	var ch Change
	ready, fx := g.Change(&ch, nil, []byte("a"), time.Second)
	require.False(t, ready)
	require.Equal(t, []Recall{{c, Immediate{KindRecall, gt.Slot, gt.Generation}}}, fx.Recalls)
	assert.Equal(t, makeWord(gt.Generation+1, 1), slotWord(w.w[1]), "before the recall is posted")
	sent := 3 * time.Second
	g.Sent(fx.Recalls[0], sent)
	for now := sent; now < sent+lease; now += lease / samplesPerLease {
		w.w[LeaseWord]++
		fx = g.Tick(now)
		require.Empty(t, fx.Ready, now)
	}
	at, ok := g.Next()
	assert.True(t, ok)
	assert.LessOrEqual(t, at, sent+lease)
	late := sent + lease
	fx = g.Tick(late)
	assert.Equal(t, []*Change{&ch}, fx.Ready)
	assert.Len(t, fx.Ended, 1)
	assert.Empty(t, fx.Cuts)
	g.Done(&ch)

	assert.Equal(t, ReasonLate, prepareReason(g, c, "b", late+penaltyLeases*lease-1))
	a, why, _ := g.Prepare(c, []byte("b"), late+penaltyLeases*lease)
	require.Zero(t, why)
	_, why, _ = g.Commit(a, late+penaltyLeases*lease)
	assert.Equal(t, ReasonLimit, why, "kind 2 is missing")
	assert.Empty(t, g.Immediate(c, returnedMessage(gt)).Cuts)
	again := grantObject(t, g, c, "b", late+penaltyLeases*lease)
	assert.Equal(t, Grant{gt.Slot, gt.Generation + 2}, again)
	assert.Equal(t, Stats{InForce: 1, Granted: 2, Refused: 2, Recalled: 1, Returned: 1, Late: 1}, g.Stats())
}

// TestCommitLate checks that Commit checks again for a penalty and a closed
// connection.
func TestCommitLate(t *testing.T) {
	g := newTestGrantor(t, Config{})
	c, _ := attachConn(g, 1)
	first, why, _ := g.Prepare(c, []byte("a"), 0)
	require.Zero(t, why)
	assert.Equal(t, ReasonHeld, prepareReason(g, c, "a", 0), "is being granted")
	second, _, _ := g.Prepare(c, []byte("b"), 0)
	c.lateUntil = lease
	_, why, _ = g.Commit(first, 0)
	assert.Equal(t, ReasonLate, why)
	g.Disconnect(c, true, 0)
	_, why, _ = g.Commit(second, 2*lease)
	assert.Equal(t, ReasonOver, why)
	assert.Equal(t, ReasonOver, prepareReason(g, c, "b", 2*lease))
	assert.Empty(t, g.table.held)
	assert.Empty(t, c.held)
}

// TestCut checks that the Grantor closes a connection that returns a grant that
// was not recalled, sends other invalid messages, or accepts no recalls.
func TestCut(t *testing.T) {
	for name, answer := range map[string][8]byte{
		"unknown slot":       Immediate{KindReturned, 77, 1}.Bytes(),
		"the lease's slot":   Immediate{KindReturned, 0, 0}.Bytes(),
		"not recalled":       Immediate{KindReturned, 1, 1}.Bytes(),
		"another generation": Immediate{KindReturned, 2, 2}.Bytes(),
		"a recall":           Immediate{KindRecall, 2, 1}.Bytes(),
		"nothing":            {},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTestGrantor(t, Config{})
			c, _ := attachConn(g, 2)
			other, w := attachConn(g, 2)
			tick := func(now time.Duration) effects {
				w.w[LeaseWord]++
				return g.Tick(now)
			}
			grantObject(t, g, c, "a", 0)
			grantObject(t, g, c, "b", 0)
			grantObject(t, g, other, "a", 0)
			var ch Change
			_, fx := g.Change(&ch, nil, []byte("b"), 0)
			require.Len(t, fx.Recalls, 1)
			fx = g.Immediate(c, answer)
			require.Len(t, fx.Cuts, 1)
			assert.Same(t, c, fx.Cuts[0].Conn)
			assert.Error(t, fx.Cuts[0].Err)
			assert.Empty(t, tick(lease), "the client may not have the grant yet")
			assert.Equal(t, ReasonOver, prepareReason(g, c, "c", lease))
			assert.Empty(t, g.Disconnect(c, false, lease))
			assert.Empty(t, g.Disconnect(c, true, lease), "once")
			assert.Empty(t, g.Immediate(c, answer), "all later requests")
			assert.Empty(t, tick(lease+trustTime(lease)-1).Ready)
			fx = tick(lease + trustTime(lease))
			assert.Equal(t, []*Change{&ch}, fx.Ready)
			assert.Equal(t, 1, g.Stats().InForce, "the other client's grant")
		})
	}
	t.Run("deaf", func(t *testing.T) {
		g := newTestGrantor(t, Config{})
		c, w := attachConn(g, 1)
		grantObject(t, g, c, "a", 0)
		var ch Change
		g.Change(&ch, nil, []byte("a"), 0)
		for now := time.Duration(0); now < lease; now += lease / samplesPerLease {
			w.w[LeaseWord]++
			require.Empty(t, g.Tick(now))
		}
		w.w[LeaseWord]++
		fx := g.Tick(lease)
		require.Len(t, fx.Cuts, 1)
		assert.ErrorIs(t, fx.Cuts[0].Err, ErrUnresponsive)
		g.Disconnect(c, false, lease)
		assert.Equal(t, []*Change{&ch}, g.Tick(lease+trustTime(lease)).Ready)
	})
}

// TestWindow checks that at most as many recalls are outstanding as the window
// has receives, and that each return permits the next. A recall follows the
// reply with its grant.
func TestWindow(t *testing.T) {
	g := newTestGrantor(t, Config{})
	c, _ := attachConn(g, 2)
	var changes [4]Change
	var out []Recall
	for i := range changes {
		key := []byte{byte(i)}
		if i == 1 { // the reply is not posted
			a, _, _ := g.Prepare(c, key, 0)
			_, why, _ := g.Commit(a, 0)
			require.Zero(t, why)
		} else {
			grantObject(t, g, c, string(key), 0)
		}
		ready, fx := g.Change(&changes[i], nil, key, 0)
		require.False(t, ready)
		out = append(out, fx.Recalls...)
	}
	require.Len(t, out, 2)
	slot := func(r Recall) uint32 { return r.Slot }
	assert.Equal(t, []uint32{1, 3}, []uint32{slot(out[0]), slot(out[1])})
	fx := g.Replied(c, Grant{2, 1})
	assert.Empty(t, fx.Recalls, "no receive for it")
	fx = g.Immediate(c, returnedMessage(Grant{3, 1}))
	require.Len(t, fx.Recalls, 1)
	assert.EqualValues(t, 2, slot(fx.Recalls[0]))
	assert.Equal(t, []*Change{&changes[2]}, fx.Ready)
	fx = g.Immediate(c, returnedMessage(Grant{1, 1}))
	require.Len(t, fx.Recalls, 1)
	assert.EqualValues(t, 4, slot(fx.Recalls[0]))
}
