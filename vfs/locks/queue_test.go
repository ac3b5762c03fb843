package locks

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Queue agrees with a list of Requests that is searched from its start to its end. Each Request
// that overlaps a range is found once, although others come and go in the meantime.
func TestQueue(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			var o Object
			var q Queue
			owners := []*Owner{o.NewOwner(0), o.NewOwner(1), o.NewOwner(2)}
			list := map[*Request]bool{}
			some := func() Range { i := uint64(r.IntN(20)); return Range{i, i + uint64(r.IntN(6))} }
			change := func() {
				for x := range list {
					if r.IntN(3) == 0 {
						q.Remove(x)
						delete(list, x)
					}
					break
				}
				if len(list) < 40 {
					list[q.Add(owners[r.IntN(3)], some(), r.IntN(2) == 0, nil)] = true
				}
			}
			for range 400 {
				change()
				at, w, exclusive := some(), owners[r.IntN(3)], r.IntN(2) == 0
				conflict, want := q.Conflict(w, at, exclusive), false
				all := map[*Request]bool{}
				for x := range list {
					want = want || x.owner != w && x.overlaps(at) && (x.exclusive || exclusive)
					if x.overlaps(at) {
						all[x] = true
					}
				}
				require.Equal(t, want, conflict != nil)
				if conflict != nil {
					require.True(t, list[conflict] && conflict.owner != w && conflict.overlaps(at) && (conflict.exclusive || exclusive))
				}
				seen := map[*Request]bool{}
				for x := q.Overlapping(at, nil); x != nil; x = q.Overlapping(at, x) {
					require.True(t, list[x] && x.overlaps(at) && !seen[x])
					seen[x] = true
					change()
				}
				for x := range all {
					require.True(t, seen[x] || !list[x], "a Request is missed")
				}
			}
			for x := range list {
				q.Remove(x)
			}
			require.Nil(t, q.Overlapping(Range{0, ToEnd}, nil))
		})
	}
}

// Requests are found among many others, also one after the other, in few steps.
func TestStepsAmongManyRequests(t *testing.T) {
	const n, bound = 1 << 12, 500
	var o Object
	var q Queue
	w := o.NewOwner(nil)
	for i := range uint64(n) {
		q.Add(w, Range{i, i + i%7*n}, i%2 == 0, nil) // of one owner, and many overlap
	}
	for i := range uint64(n) {
		before := o.visited
		q.Conflict(w, Range{i, i}, true)
		q.Overlapping(Range{i, i}, nil)
		require.Less(t, o.visited-before, uint64(bound))
	}
	var last *Request
	found := 0
	for before := o.visited; ; before = o.visited {
		x := q.Overlapping(Range{0, ToEnd}, last)
		require.Less(t, o.visited-before, uint64(bound))
		if x == nil {
			break
		}
		last = x
		found++
	}
	require.Equal(t, n, found)
}
