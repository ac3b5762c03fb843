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

func number(t *testing.T, env string, otherwise int) int {
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
// all delays, losses and cut connections, and that no change waits for ever.
// Two clients read, write, truncate, create, rename and remove, and so do
// processes at the server. In some schedules a third client writes nonsense to
// its counters and returns grants that were not recalled.
func TestSchedules(t *testing.T) {
	t.Parallel()
	n := 10_000
	if testing.Short() || racetest.Enabled {
		n = 500
	}
	n = number(t, schedulesEnv, n)
	first := number(t, seedEnv, 1)
	var sum Stats
	served := 0
	for seed := first; seed < first+n; seed++ {
		tracing = n == 1
		s := schedule(uint64(seed))
		if s.wrong != "" || tracing {
			t.Log(strings.Join(s.trace, "\n"))
		}
		require.Empty(t, s.wrong, "%s=%d %s=1 shows how", seedEnv, seed, schedulesEnv)
		sum = plus(sum, s.srv.g.Stats())
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

func plus(a, b Stats) Stats {
	return Stats{
		Granted: a.Granted + b.Granted, Refused: a.Refused + b.Refused, Recalled: a.Recalled + b.Recalled,
		Returned: a.Returned + b.Returned, Reclaimed: a.Reclaimed + b.Reclaimed, Late: a.Late + b.Late,
		Silent: a.Silent + b.Silent, Cut: a.Cut + b.Cut,
	}
}

// schedule runs a schedule and checks the final state.
func schedule(seed uint64) *sim {
	s := newSim(seed)
	newSimServer(s)
	for i := range 2 {
		s.busy(newSimClient(s, fmt.Sprint("client ", i)))
	}
	if s.chance(5) {
		s.hostile(newSimClient(s, "hostile"))
	}
	s.others()
	const busy = 45 * time.Second
	s.run(s.now + busy)
	for _, c := range s.users {
		c.idle = true
	}
	s.run(s.now + 5*simLease)
	s.settled()
	return s
}

// busy keeps a client busy.
func (s *sim) busy(c *simClient) {
	s.after(s.upTo(4*time.Second), func() {
		if c.idle {
			return
		}
		switch {
		case s.chance(4):
			c.change(s.op())
		case s.chance(50):
			c.l.break_()
		default:
			c.read(s.place())
		}
		s.busy(c)
	})
}

func (s *sim) place() place { return place{s.IntN(2), s.IntN(3)} }

func (s *sim) op() *simOp {
	t := s.srv.t
	return &simOp{kind: opKind(s.IntN(int(opKinds))), file: t.files[s.IntN(len(t.files))], from: s.place(), to: s.place()}
}

// others makes changes without a delegation: over TCP, or at the server.
func (s *sim) others() {
	s.after(s.upTo(30*time.Second), func() {
		if s.users[0].idle {
			return
		}
		s.srv.change(nil, s.op(), func(bool) {})
		s.others()
	})
}

// hostile makes a client break the rules.
func (s *sim) hostile(c *simClient) {
	c.hostile = true
	s.busy(c)
	var scribble func()
	scribble = func() {
		s.after(s.upTo(2*time.Second), func() {
			if c.idle {
				return
			}
			w := c.l.words.w
			switch s.IntN(12) {
			case 0: // a return without a recall
				m := Immediate{Kind(s.IntN(4)), uint32(s.IntN(simSlots + 1)), uint32(s.IntN(6))}
				c.immediate(c.l, m.Bytes())
			case 1: // seemingly unused
				n := s.IntN(simSlots)
				w[n] = uint64(MakeWord(Word(w[n]).Generation(), 0))
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

// settled checks that nothing is under way when all clients have been idle for
// long, and that nothing is left when all clients are gone.
func (s *sim) settled() {
	if s.wrong != "" {
		return
	}
	g := s.srv.g
	if s.srv.open > 0 {
		s.fail("%d changes have not ended", s.srv.open)
	}
	for _, c := range s.users {
		if l := c.l; !c.hostile && !l.dead && l.conn.unanswered+len(l.conn.queue) > 0 {
			s.fail("%s has not answered %d recalls", c, l.conn.unanswered)
		}
		c.l.lost(true)
	}
	s.run(s.now + 2*simLease)
	if st := g.Stats(); st.InForce > 0 || uint64(s.srv.ended) != st.Granted || len(g.objects)+len(g.conns) > 0 {
		s.fail("%+v, %d were told to end; %d objects and %d connections are left", st, s.srv.ended, len(g.objects), len(g.conns))
	}
	for i := range g.shards {
		if v := g.shards[i].n.Load(); v != 0 {
			s.fail("shard %d: %#x", i, v)
		}
	}
}
