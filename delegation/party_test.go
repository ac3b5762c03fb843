package delegation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// attachParty attaches a client in a party.
func attachParty(g *testGrantor, party string) *Conn {
	return g.Attach(&memWords{make([]uint64, g.cfg.Slots)}, 1000, party, nil)
}

// acquireReason acquires a directory or a file, and returns the Reason if it is
// refused.
func acquireReason(g *testGrantor, c *Conn, key string, names bool, now time.Duration) Reason {
	a, why, _ := g.Prepare(c, []byte(key), now)
	if why != 0 {
		return why
	}
	a.Names = names
	gt, why, _ := g.Commit(a, now)
	if why == 0 {
		g.Replied(c, gt)
	}
	return why
}

// finishChange advances the time until a change has nothing to wait for.
func finishChange(t *testing.T, g *testGrantor, ch *Change, now time.Duration) time.Duration {
	for g.Waits(ch) {
		at, ok := g.Next()
		require.True(t, ok)
		now = max(now, at)
		g.Tick(now)
	}
	g.Done(ch)
	return now
}

// TestPenaltyOutlivesConnection checks that a client that resets its connection
// while a change waits can delay changes of that object once in ten leases,
// however often the client reconnects. The penalty outlives the connection.
func TestPenaltyOutlivesConnection(t *testing.T) {
	g := newTestGrantor(t, Config{})
	var now, held time.Duration
	for now < penaltyLeases*lease {
		c := attachParty(g, "reader")
		if why := acquireReason(g, c, "object", false, now); why != 0 {
			assert.Equal(t, ReasonContended, why)
			assert.Equal(t, trustTime(lease), held, "so far")
			now += lease / 2
			g.Disconnect(c, true, now)
			continue
		}
		began := now
		var ch Change
		ready, _ := g.Change(&ch, nil, []byte("object"), now)
		require.False(t, ready)
		g.Disconnect(c, false, now)
		now = finishChange(t, g, &ch, now)
		held += now - began
	}
	assert.Equal(t, trustTime(lease), held)
	assert.EqualValues(t, 1, g.Stats().Late)
	assert.Zero(t, acquireReason(g, attachParty(g, "reader"), "object", true, now+lease), "it is over")
}

// TestPenaltyOfParty checks that a late party gets no grant for that object or
// for any directory, while other parties and all other files are unaffected.
// The same holds for an unanswered recall.
func TestPenaltyOfParty(t *testing.T) {
	for name, end := range map[string]func(g *testGrantor, c *Conn, r Recall, now time.Duration){
		"reset":     func(g *testGrantor, c *Conn, _ Recall, now time.Duration) { g.Disconnect(c, false, now) },
		"no answer": func(g *testGrantor, _ *Conn, r Recall, now time.Duration) { g.Sent(r, now) },
		"nonsense": func(g *testGrantor, c *Conn, _ Recall, now time.Duration) {
			g.Immediate(c, [8]byte{})
			g.Disconnect(c, false, now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTestGrantor(t, Config{})
			c := attachParty(g, "a")
			require.Zero(t, acquireReason(g, c, "object", false, 0))
			var ch Change
			_, fx := g.Change(&ch, nil, []byte("object"), 0)
			end(g, c, fx.Recalls[0], 0)
			now := finishChange(t, g, &ch, 0)
			neighbour, other := attachParty(g, "a"), attachParty(g, "b")
			assert.Equal(t, ReasonContended, acquireReason(g, neighbour, "object", false, now))
			assert.Equal(t, ReasonContended, acquireReason(g, neighbour, "directory", true, now))
			assert.Zero(t, acquireReason(g, neighbour, "file", false, now))
			assert.Zero(t, acquireReason(g, other, "object", false, now))
			assert.Zero(t, acquireReason(g, other, "directory", true, now))
			now += penaltyLeases * lease
			assert.Zero(t, acquireReason(g, neighbour, "object", false, now))
			assert.Zero(t, acquireReason(g, neighbour, "directory", true, now))
		})
	}
}

// TestNotLate checks that a client is not late if it closes its connection
// gracefully, if no change waits, or if the server closed the connection.
func TestNotLate(t *testing.T) {
	for name, tt := range map[string]struct {
		waits bool
		end   func(g *testGrantor, c *Conn)
	}{
		"closed":              {true, func(g *testGrantor, c *Conn) { g.Disconnect(c, true, 0) }},
		"no waiter":           {false, func(g *testGrantor, c *Conn) { g.Disconnect(c, false, 0) }},
		"ended by the server": {true, func(g *testGrantor, c *Conn) { g.Dismiss(c, 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTestGrantor(t, Config{})
			c := attachParty(g, "a")
			require.Zero(t, acquireReason(g, c, "object", false, 0))
			var ch Change
			if tt.waits {
				g.Change(&ch, nil, []byte("object"), 0)
			}
			tt.end(g, c)
			now := finishChange(t, g, &ch, 0)
			assert.Zero(t, acquireReason(g, attachParty(g, "a"), "object", true, now))
			assert.Zero(t, g.Stats().Late)
			assert.Empty(t, g.penalties)
		})
	}
}

// TestLatenessesBounded checks that the number of penalties in memory is
// bounded, that expired entries are removed first, and that the search for
// these is bounded too.
func TestLatenessesBounded(t *testing.T) {
	g := newTestGrantor(t, Config{})
	for i := range 3 * maxPenalties {
		g.addPenalty(penaltyKey{fmt.Sprint(i), ""}, time.Duration(i%2), 0)
		require.LessOrEqual(t, len(g.penalties), maxPenalties)
	}
	for i := 0; len(g.penalties) < maxPenalties; i++ {
		g.addPenalty(penaltyKey{fmt.Sprint("more", i), ""}, 1, 0)
	}
	g.addPenalty(penaltyKey{"next", ""}, lease, 1)
	assert.Len(t, g.penalties, maxPenalties-penaltyScan+1)
}
