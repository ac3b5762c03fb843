package delegation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changedBy changes an object on a connection, or on another transport if c is
// nil, and returns all recalled grants. The result is the number of recalls.
func changedBy(t *testing.T, g *testGrantor, c *Conn, key string, now time.Duration) int {
	var ch Change
	_, fx := g.Change(&ch, c, []byte(key), now)
	for _, r := range fx.Recalls {
		g.Immediate(r.Conn, returnedMessage(Grant{r.Slot, r.Generation}))
	}
	require.False(t, g.Waits(&ch))
	g.Done(&ch)
	return len(fx.Recalls)
}

// TestContest checks that after three recalls of a directory that two clients
// change alternately, no client gets the directory for one lease time. Each
// further recall doubles that pause, up to a bound. After a while without
// changes, the directory counts as any other.
func TestContest(t *testing.T) {
	g := newTestGrantor(t, Config{})
	one, other := attachParty(g, "a"), attachParty(g, "a")
	var now time.Duration
	turn := func() { // one client reads, the other changes
		require.Zero(t, acquireReason(g, one, "dir", true, now))
		require.Equal(t, 1, changedBy(t, g, other, "dir", now))
		one, other = other, one
	}
	for range 2 {
		for range contestRecalls - 1 {
			turn()
			now += contestTime*lease/(contestRecalls-1) - 1
		}
		for i, leases := range []time.Duration{1, 2, 4, 8, 16, 16} {
			turn()
			assert.Equal(t, ReasonContended, acquireReason(g, one, "dir", true, now))
			assert.Equal(t, ReasonContended, acquireReason(g, attachParty(g, "b"), "dir", true, now))
			require.Zero(t, acquireReason(g, one, fmt.Sprint("other", now), true, now))
			now += leases*lease - 1
			assert.Equal(t, ReasonContended, acquireReason(g, one, "dir", true, now), "%d", i)
			now++
			if i%2 == 1 {
				now += contestTime*lease - 1 // the contest is remembered for that long
			}
		}
		now += contestTime * lease
	}
}

// TestContestCounts checks that only recalls for alternate changes of a
// directory count, once for each change, and not during the pause. Recalls do
// not count for the changes of one client, for files, or if they are rare.
func TestContestCounts(t *testing.T) {
	many := 5 * contestRecalls
	for name, tt := range map[string]struct {
		names bool
		turn  func(t *testing.T, g *testGrantor, i int, a, b *Conn) time.Duration
		want  Reason
	}{
		"one client": {true, func(t *testing.T, g *testGrantor, _ int, _, b *Conn) time.Duration {
			changedBy(t, g, b, "object", 0)
			return 0
		}, 0},
		"files": {false, func(t *testing.T, g *testGrantor, i int, _, b *Conn) time.Duration {
			changedBy(t, g, []*Conn{nil, b}[i%2], "object", 0)
			return 0
		}, 0},
		"seldom": {true, func(t *testing.T, g *testGrantor, i int, _, b *Conn) time.Duration {
			changedBy(t, g, []*Conn{nil, b}[i%2], "object", time.Duration(i)*contestTime*lease/(contestRecalls-1))
			return time.Duration(i) * contestTime * lease / (contestRecalls - 1)
		}, 0},
		"the holder": {true, func(t *testing.T, g *testGrantor, _ int, a, _ *Conn) time.Duration {
			assert.Zero(t, changedBy(t, g, a, "object", 0), "it is its own")
			changedBy(t, g, nil, "object", 0)
			return 0
		}, ReasonContended},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTestGrantor(t, Config{})
			a, b := attachParty(g, "a"), attachParty(g, "b")
			var now time.Duration
			for i := range many {
				if why := acquireReason(g, a, "object", tt.names, now); why != 0 {
					assert.Equal(t, tt.want, why)
					assert.Equal(t, contestRecalls, i)
					return
				}
				now = tt.turn(t, g, i, a, b)
			}
			assert.Zero(t, tt.want)
		})
	}

	// If several clients hold the directory, one change recalls the grants of
	// all.
	g := newTestGrantor(t, Config{})
	var all []*Conn
	for i := range many {
		all = append(all, attachParty(g, fmt.Sprint(i)))
	}
	for i := range contestRecalls - 1 {
		for _, c := range all {
			require.Zero(t, acquireReason(g, c, "dir", true, 0), "%d", i)
		}
		require.Equal(t, many, changedBy(t, g, []*Conn{nil, attachParty(g, "x")}[i%2], "dir", 0))
	}
	// The client that changes the directory keeps its own grant until another
	// client changes the directory.
	require.Zero(t, acquireReason(g, all[0], "dir", true, 0))
	require.Zero(t, acquireReason(g, all[1], "dir", true, 0))
	require.Equal(t, 1, changedBy(t, g, all[1], "dir", 0))
	require.Equal(t, 1, changedBy(t, g, nil, "dir", 0))
	assert.Equal(t, ReasonContended, acquireReason(g, all[0], "dir", true, lease-1))
	assert.Zero(t, acquireReason(g, all[0], "dir", true, lease), "no additional call")
}

// TestContestsBounded checks that the number of remembered contests is bounded,
// that contests without recent recalls are removed first, and that the search
// for these is bounded too.
func TestContestsBounded(t *testing.T) {
	g := newTestGrantor(t, Config{})
	for i := range 3 * maxContests {
		g.recordDirChange(fmt.Sprint(i), nil, true, time.Duration(i%2))
		require.LessOrEqual(t, len(g.contests), maxContests)
	}
	for i := len(g.contests); i < maxContests; i++ {
		g.recordDirChange(fmt.Sprint("more", i), nil, true, 1)
	}
	g.recordDirChange("next", nil, true, 1+contestTime*lease)
	left := maxContests - contestScan + 1
	assert.Len(t, g.contests, left)
	c := attachParty(g, "a")
	require.Zero(t, acquireReason(g, c, "not recalled", true, 0))
	changedBy(t, g, c, "not recalled", 0)
	assert.Len(t, g.contests, left)
}
