package delegation

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
)

const (
	// schedulesEnv sets the number of schedules to run, and seedEnv the seed of
	// the first schedule.
	schedulesEnv = "DELEGATION_SCHEDULES"
	seedEnv      = "DELEGATION_SEED"
)

func envNumber(t *testing.T, env string, otherwise int) int {
	v := os.Getenv(env)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	require.NoError(t, err)
	return n
}

// TestSchedules runs complete clients and a server on random schedules. It
// checks that all data served was current at some time during the read, despite
// all delays, losses and cut connections, and that no change waits forever. Two
// clients read, write, truncate, create, rename and remove, and so do processes
// at the server. In some schedules a third client writes nonsense to its
// counters and returns grants that were not recalled.
func TestSchedules(t *testing.T) {
	t.Parallel()
	n := 10_000
	if testing.Short() || racetest.Enabled {
		n = 500
	}
	n = envNumber(t, schedulesEnv, n)
	first := envNumber(t, seedEnv, 1)
	var sum Stats
	served := 0
	for seed := first; seed < first+n; seed++ {
		tracing = n == 1
		s := runSchedule(uint64(seed))
		if s.failure != "" || tracing {
			t.Log(strings.Join(s.trace, "\n"))
		}
		require.Empty(t, s.failure, "%s=%d %s=1 shows how", seedEnv, seed, schedulesEnv)
		sum = addStats(sum, s.srv.g.Stats())
		for _, c := range s.users {
			served += c.served
		}
	}
	t.Logf("%d schedules: %d served from a cache, %+v", n, served, sum)
	if n >= 500 { // all kinds of events have occurred
		for name, v := range map[string]uint64{
			"granted": sum.Granted, "refused": sum.Refused, "recalled": sum.Recalled, "returned": sum.Returned,
			"reclaimed": sum.Reclaimed, "late": sum.Late, "silent": sum.Silent, "cut": sum.Cut, "served": uint64(served),
		} {
			assert.NotZero(t, v, name)
		}
	}
}

func addStats(a, b Stats) Stats {
	return Stats{
		Granted: a.Granted + b.Granted, Refused: a.Refused + b.Refused, Recalled: a.Recalled + b.Recalled,
		Returned: a.Returned + b.Returned, Reclaimed: a.Reclaimed + b.Reclaimed, Late: a.Late + b.Late,
		Silent: a.Silent + b.Silent, Cut: a.Cut + b.Cut,
	}
}

// runSchedule runs a schedule and checks the final state.
func runSchedule(seed uint64) *simulation {
	s := newSimulation(seed)
	newSimServer(s)
	for i := range 2 {
		s.keepBusy(newSimClient(s, fmt.Sprint("client ", i)))
	}
	if s.oneIn(5) {
		s.makeHostile(newSimClient(s, "hostile"))
	}
	s.runOtherChanges()
	const busy = 45 * time.Second
	s.runEvents(s.now + busy)
	for _, c := range s.users {
		c.idle = true
	}
	s.runEvents(s.now + 5*simLease)
	s.checkSettled()
	return s
}

// keepBusy keeps a client busy.
func (s *simulation) keepBusy(c *simClient) {
	s.scheduleAfter(s.randomUpTo(4*time.Second), func() {
		if c.idle {
			return
		}
		switch {
		case s.oneIn(4):
			c.startChange(s.randomOp())
		case s.oneIn(50):
			c.l.breakConn()
		default:
			c.readName(s.randomName())
		}
		s.keepBusy(c)
	})
}

func (s *simulation) randomName() dirEntry { return dirEntry{s.IntN(2), s.IntN(3)} }

func (s *simulation) randomOp() *simOp {
	t := s.srv.t
	return &simOp{kind: opKind(s.IntN(int(opKinds))), file: t.files[s.IntN(len(t.files))], from: s.randomName(), to: s.randomName()}
}

// runOtherChanges makes changes without a delegation: over TCP, or on the
// server.
func (s *simulation) runOtherChanges() {
	s.scheduleAfter(s.randomUpTo(30*time.Second), func() {
		if s.users[0].idle {
			return
		}
		s.srv.serveChange(nil, s.randomOp(), func(bool) {})
		s.runOtherChanges()
	})
}

// makeHostile makes a client violate the protocol.
func (s *simulation) makeHostile(c *simClient) {
	c.hostile = true
	s.keepBusy(c)
	var scribble func()
	scribble = func() {
		s.scheduleAfter(s.randomUpTo(2*time.Second), func() {
			if c.idle {
				return
			}
			w := c.l.words.w
			switch s.IntN(12) {
			case 0: // a return without a recall
				m := Immediate{Kind(s.IntN(4)), uint32(s.IntN(simSlots + 1)), uint32(s.IntN(6))}
				c.postImmediate(c.l, m.Bytes())
			case 1: // seemingly unused
				n := s.IntN(simSlots)
				w[n] = uint64(makeWord(slotWord(w[n]).generation(), 0))
			case 2: // or seemingly used
				w[s.IntN(simSlots)]--
			default:
				w[s.IntN(simSlots)] = s.Uint64()
			}
			scribble()
		})
	}
	scribble()
}

// checkSettled checks that nothing is in progress when all clients have been
// idle for long, and that nothing is left when all clients are gone.
func (s *simulation) checkSettled() {
	if s.failure != "" {
		return
	}
	g := s.srv.g
	if s.srv.open > 0 {
		s.recordFailure("%d changes have not ended", s.srv.open)
	}
	for _, c := range s.users {
		if l := c.l; !c.hostile && !l.dead && l.conn.outstandingRecalls+len(l.conn.recallQueue) > 0 {
			s.recordFailure("%s has not answered %d recalls", c, l.conn.outstandingRecalls)
		}
		c.l.notifyServer(true)
	}
	s.runEvents(s.now + 2*simLease)
	if st := g.Stats(); st.InForce > 0 || uint64(s.srv.ended) != st.Granted || len(g.table.held)+len(g.table.running)+len(g.conns) > 0 {
		s.recordFailure("%+v, %d were told to end; %+v and %d connections are left", st, s.srv.ended, g.table, len(g.conns))
	}
}
