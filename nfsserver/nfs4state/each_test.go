package nfs4state

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// TestEachOpen lets other opens come and go during the walk: the walk finds each
// open of the client that stays, and locks the State for eachStep opens at most.
func TestEachOpen(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w := newTestState(t)
		mine, other := w.newTestClient("mine"), w.newTestClient("other")
		stay := make(map[*Open]bool)
		var passing []nfs4.StateID // opens of other
		n := 0
		open := func(s *Session) *Open {
			n++
			o, id := w.mustOpen(s, fmt.Sprint("o", n), "f", nfs4.ShareRead, 0, nil)
			if s == other {
				passing = append(passing, id)
			}
			return o
		}
		for range 5 * eachStep {
			if rng.IntN(100) == 0 {
				stay[open(mine)] = true
			} else {
				open(other)
			}
		}
		found, calls := make(map[*Open]bool), 0
		for at := -1; at != 0; calls++ {
			before := len(w.fileOf("f").opens)
			next := w.eachOpenStep(mine, []byte("f"), at, func(o *Open) bool { found[o] = true; return true })
			if at < 0 {
				at = before
			}
			want(t, "opens looked at with the State locked", max(min(at, before)-next, 0) <= eachStep, true)
			at = next
			for range rng.IntN(eachStep) {
				i := rng.IntN(len(passing))
				want(t, "CLOSE", w.Close(other, &passing[i]), nfs4.OK)
				passing[i] = passing[len(passing)-1]
				passing = passing[:len(passing)-1]
			}
			for range rng.IntN(100) {
				open(other)
			}
		}
		want(t, "more than one step", calls > 1, true)
		for o := range stay {
			want(t, "found", found[o], true)
		}
		all := 0
		w.EachOpen(mine, []byte("f"), func(o *Open) bool { all++; return true })
		want(t, "opens of the client", all >= len(stay), true)
		one := 0
		w.EachOpen(mine, []byte("f"), func(o *Open) bool { one++; return false })
		want(t, "calls after false", one, min(1, len(stay)))
		w.EachOpen(mine, []byte("none"), func(o *Open) bool { t.Fatal("an open of an object that nobody has open"); return false })
	}
}
