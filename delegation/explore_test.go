package delegation

import (
	"crypto/sha256"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
)

// deepEnv, if set, extends the exploration to several minutes.
const deepEnv = "DELEGATION_DEEP"

// explorations are the bounds for TestEveryInterleaving.
var explorations = []struct {
	name string
	deep bool
	budget
}{
	{"a slot that is used again", false, budget{
		asks: [2]int{2, 0}, opens: [2]int{1, 0}, closes: [2]int{2, 0}, changes: [3]int{0, 0, 1}, reclaims: 1, slow: true,
	}},
	{"looks", false, budget{
		asks: [2]int{1, 0}, checks: [2]int{2, 0}, closes: [2]int{1, 0}, changes: [3]int{0, 0, 2}, reclaims: 1,
	}},
	{"two clients", false, budget{
		asks: [2]int{1, 1}, opens: [2]int{1, 0}, closes: [2]int{1, 0}, changes: [3]int{0, 1, 0}, reclaims: 1, direct: true,
	}},
	{"connections cut", false, budget{
		asks: [2]int{1, 0}, changes: [3]int{0, 0, 1}, steps: 3, cuts: 1, slow: true, direct: true,
	}},
	{"leases and deadlines", false, budget{
		asks: [2]int{1, 0}, opens: [2]int{1, 0}, closes: [2]int{1, 0}, changes: [3]int{0, 0, 1}, steps: 4, renews: 1, direct: true,
	}},
	{"what the server posts is late", false, budget{
		asks: [2]int{1, 0}, changes: [3]int{0, 0, 1}, steps: 4, renews: 2, slow: true, direct: true,
	}},
	{"so is a recall after the lease", false, budget{
		asks: [2]int{1, 0}, opens: [2]int{1, 0}, changes: [3]int{0, 0, 1}, steps: 3, renews: 1, slow: true, direct: true,
	}},
	{"changes that come back", false, budget{
		asks: [2]int{2, 0}, changes: [3]int{0, 0, 1}, steps: 2, postpone: true, direct: true,
	}},
	{"unnamed changes", false, budget{
		asks: [2]int{2, 0}, changes: [3]int{0, 0, 1}, unnamed: 2, direct: true,
	}},
	{"two clients and two changes", true, budget{
		asks: [2]int{1, 1}, opens: [2]int{1, 0}, closes: [2]int{1, 1}, changes: [3]int{0, 1, 1}, reclaims: 1, direct: true,
	}},
	{"a slot that is used again, in time", true, budget{
		asks: [2]int{2, 0}, closes: [2]int{1, 0}, changes: [3]int{0, 0, 1}, steps: 4, direct: true,
	}},
	{"all of one client, late", true, budget{
		asks: [2]int{1, 0}, opens: [2]int{1, 0}, closes: [2]int{1, 0}, changes: [3]int{0, 0, 1}, steps: 4, renews: 1, slow: true,
	}},
	{"two clients, in time", true, budget{
		asks: [2]int{1, 1}, changes: [3]int{1, 1, 0}, steps: 3, direct: true,
	}},
}

// TestEveryInterleaving checks all interleavings of events on one file, two
// clients, and one slot for each client, as often as each exploration permits.
// The events are grants, opens, closes, recalls, returns, reclaims, expired
// leases and deadlines, closed connections, and messages in flight. At no time
// may anything stale be served, a return be lost, or a slot be used again too
// early.
func TestEveryInterleaving(t *testing.T) {
	t.Parallel()
	for i, x := range explorations {
		if x.deep && os.Getenv(deepEnv) == "" || i > 1 && (testing.Short() || racetest.Enabled) {
			continue
		}
		t.Run(x.name, func(t *testing.T) { t.Logf("%d states", exploreStates(t, newModelState(x.budget))) })
	}
}

// A reachedState is a modelState that exploreStates has reached.
type reachedState struct {
	w    *modelState // nil after the visit
	from int32       // the predecessor's index
	by   string
}

// exploreStates visits all reachable states, ordered by the number of actions,
// and returns their number.
func exploreStates(t *testing.T, first *modelState) int {
	var e encoder
	key := func(w *modelState) [32]byte {
		e.now = w.now
		return sha256.Sum256(encodeState(&e, w))
	}
	seen := map[[32]byte]struct{}{key(first): {}}
	nodes := []reachedState{{w: first}}
	for at := int32(0); int(at) < len(nodes); at++ {
		w := nodes[at].w
		nodes[at].w = nil
		next := w.possibleActions()
		if len(next) == 0 {
			w.checkFinalState()
			if w.failure != "" {
				t.Fatalf("%s\n%s", w.failure, pathTo(nodes, at))
			}
		}
		for _, a := range next {
			c := copyWorld(w)
			a.do(c)
			c.checkCached()
			if c.failure != "" {
				t.Fatalf("%s\n%s\n%s", c.failure, pathTo(nodes, at), a.name)
			}
			k := key(c)
			if _, ok := seen[k]; !ok {
				seen[k] = struct{}{}
				nodes = append(nodes, reachedState{c, at, a.name})
			}
		}
	}
	return len(nodes)
}

// pathTo returns the actions that led to a node.
func pathTo(nodes []reachedState, at int32) string {
	var names []string
	for ; at > 0; at = nodes[at].from {
		names = append(names, nodes[at].by)
	}
	slices.Reverse(names)
	return strings.Join(names, "\n")
}

// checkFinalState checks the invariants of a state in which only time can
// advance: every recalled grant has been returned, and every change can be
// made.
func (w *modelState) checkFinalState() {
	for i, e := range w.clients {
		if !e.cut && len(e.out) > 0 {
			w.recordFailure("client %d never returned %v", i, e.out)
		}
	}
	for range 2 * modelLease / modelStep {
		w.now += modelStep
		w.applyEffects(w.g.Tick(w.now))
	}
	for _, c := range w.changes {
		if !c.ready {
			w.recordFailure("a change waits for ever")
		}
	}
}
