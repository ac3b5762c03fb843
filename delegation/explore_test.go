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

// explorations are the bounds of TestEveryInterleaving.
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
	{"blind changes", false, budget{
		asks: [2]int{2, 0}, changes: [3]int{0, 0, 1}, blind: 2, direct: true,
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
// The events are grants, opens, closes, recalls, returns, reclaims, lapsed
// leases and deadlines, ends of connections, and messages under way. At no time
// may anything stale be served, a return be lost, or a slot be used again too
// early.
func TestEveryInterleaving(t *testing.T) {
	t.Parallel()
	for i, x := range explorations {
		if x.deep && os.Getenv(deepEnv) == "" || i > 1 && (testing.Short() || racetest.Enabled) {
			continue
		}
		t.Run(x.name, func(t *testing.T) { t.Logf("%d states", explore(t, newWorld(x.budget))) })
	}
}

// A node is a reached world.
type node struct {
	w    *world // nil after the visit
	from int32  // index of the predecessor
	by   string
}

// explore visits all reachable worlds, in the order of the number of actions,
// and returns their number.
func explore(t *testing.T, first *world) int {
	var e encoder
	key := func(w *world) [32]byte {
		e.now = w.now
		return sha256.Sum256(encode(&e, w))
	}
	seen := map[[32]byte]struct{}{key(first): {}}
	nodes := []node{{w: first}}
	for at := int32(0); int(at) < len(nodes); at++ {
		w := nodes[at].w
		nodes[at].w = nil
		next := w.actions()
		if len(next) == 0 {
			w.end()
			if w.wrong != "" {
				t.Fatalf("%s\n%s", w.wrong, way(nodes, at))
			}
		}
		for _, a := range next {
			c := copyWorld(w)
			a.do(c)
			c.serve()
			if c.wrong != "" {
				t.Fatalf("%s\n%s\n%s", c.wrong, way(nodes, at), a.name)
			}
			k := key(c)
			if _, ok := seen[k]; !ok {
				seen[k] = struct{}{}
				nodes = append(nodes, node{c, at, a.name})
			}
		}
	}
	return len(nodes)
}

// way returns the actions that led to a node.
func way(nodes []node, at int32) string {
	var names []string
	for ; at > 0; at = nodes[at].from {
		names = append(names, nodes[at].by)
	}
	slices.Reverse(names)
	return strings.Join(names, "\n")
}

// end checks the invariants of a world in which only time can go on: every
// recalled grant has been returned, and every change can be made.
func (w *world) end() {
	for i, e := range w.ends {
		if !e.cut && len(e.out) > 0 {
			w.fail("client %d never returned %v", i, e.out)
		}
	}
	for range 2 * modelLease / modelStep {
		w.now += modelStep
		w.server(w.g.Tick(w.now))
	}
	for _, c := range w.changes {
		if !c.ready {
			w.fail("a change waits for ever")
		}
	}
}
