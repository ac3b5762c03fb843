package locks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The model has an array of bytes for each owner. The bytes are the first and
// the last bytes of all offsets, and the bytes around the greatest signed
// offset.
const (
	bytesPerEnd = 12
	modelBytes  = 3 * bytesPerEnd
	modelOwners = 4
	modelParts  = 2
)

// offsetOf returns the offset of a byte of the model.
func offsetOf(i int) uint64 {
	switch {
	case i < bytesPerEnd:
		return uint64(i)
	case i < 2*bytesPerEnd:
		return 1<<63 - bytesPerEnd/2 + uint64(i-bytesPerEnd)
	}
	return ToEnd - uint64(modelBytes-1-i)
}

// A cell is an owner's lock of a byte: nothing if part is 0.
type cell struct {
	part      int
	exclusive bool
}

// A lockModel has an Object and its model. The bytes between two bytes of the model are like a byte
// on either side if a single call locked both: gap[i] represents the bytes after byte i.
type lockModel struct {
	t      testing.TB
	object Object
	owners [modelOwners]*Owner
	parts  [modelOwners][modelParts]*Part
	cells  [modelOwners][modelBytes]cell
	gap    [modelOwners][modelBytes]cell
}

func newLockModel(t testing.TB) *lockModel {
	g := &lockModel{t: t}
	for w := range g.owners {
		g.owners[w] = g.object.NewOwner(w)
		for p := range g.parts[w] {
			g.parts[w][p] = g.owners[w].NewPart()
		}
	}
	return g
}

// hasGap reports whether offsets lie between the bytes i and i+1 of the model.
func hasGap(i int) bool { return i+1 < modelBytes && offsetOf(i)+1 != offsetOf(i+1) }

// set sets the model's bytes from i to j as a call does.
func (g *lockModel) set(w, i, j int, c cell) {
	for k := i; k <= j; k++ {
		g.cells[w][k] = c
		if k < j && hasGap(k) {
			g.gap[w][k] = c
		}
	}
}

// at returns the lock that owner w has of byte i, or with gap of the bytes
// after it.
func (g *lockModel) at(w, i int, gap bool) cell {
	if gap {
		return g.gap[w][i]
	}
	return g.cells[w][i]
}

// each calls f for the bytes from i to j and for the gaps between them.
func each(i, j int, f func(k int, gap bool)) {
	for k := i; k <= j; k++ {
		f(k, false)
		if k < j && hasGap(k) {
			f(k, true)
		}
	}
}

func rangeOf(i, j int) Range { return Range{offsetOf(i), offsetOf(j)} }

// list returns the locks that an owner must have.
func (g *lockModel) list(w int) (locks []node) {
	var last cell
	add := func(start, end uint64, c cell) {
		if c.part != 0 {
			if n := len(locks); n > 0 && c == last && locks[n-1].End+1 == start {
				locks[n-1].End = end
			} else {
				locks = append(locks, node{Range: Range{start, end}, part: g.parts[w][c.part-1], exclusive: c.exclusive})
			}
		}
		last = c
	}
	each(0, modelBytes-1, func(k int, gap bool) {
		if gap {
			add(offsetOf(k)+1, offsetOf(k+1)-1, g.gap[w][k])
		} else {
			add(offsetOf(k), offsetOf(k), g.cells[w][k])
		}
	})
	return locks
}

// conflict returns whether the model has a conflict.
func (g *lockModel) conflict(w, i, j int, exclusive bool) (is bool) {
	for other := range g.owners {
		if other == w {
			continue
		}
		each(i, j, func(k int, gap bool) {
			c := g.at(other, k, gap)
			is = is || c.part != 0 && (c.exclusive || exclusive)
		})
	}
	return is
}

// step makes one call, and checks its results and all locks.
func (g *lockModel) step(op, w, p, i, j int) {
	i, j = min(i, j), max(i, j)
	r := rangeOf(i, j)
	switch op % 8 {
	case 0, 1, 2, 3:
		exclusive := op%2 == 1
		l, is := g.object.Conflict(g.owners[w], r, exclusive)
		require.Equal(g.t, g.conflict(w, i, j, exclusive), is, "conflict of owner %d with %v, exclusive %v", w, r, exclusive)
		if is {
			g.checkConflict(w, r, exclusive, l)
			return
		}
		g.parts[w][p].Lock(r, exclusive)
		g.set(w, i, j, cell{p + 1, exclusive})
	case 4, 5, 6:
		before, splits := g.owners[w].Len(), g.owners[w].Splits(r)
		g.owners[w].Unlock(r)
		require.Equal(g.t, splits, g.owners[w].Len() == before+1)
		g.set(w, i, j, cell{})
	case 7:
		g.parts[w][p].Drop()
		for k := range modelBytes {
			for _, c := range []*cell{&g.cells[w][k], &g.gap[w][k]} {
				if c.part == p+1 {
					*c = cell{}
				}
			}
		}
	}
	g.check()
	g.checkUnion(i, j)
}

// checkConflict checks a lock that Conflict has returned: the lock is of
// another owner, and no other lock conflicts before this lock.
func (g *lockModel) checkConflict(w int, r Range, exclusive bool, l Lock) {
	other := l.Owner.Tag.(int)
	require.NotEqual(g.t, w, other)
	var own bool
	for v := range g.owners {
		for _, n := range g.list(v) {
			if v == w || !n.overlaps(r) || !n.exclusive && !exclusive {
				continue
			}
			own = own || v == other && n.Range == l.Range && n.exclusive == l.Exclusive
			require.LessOrEqual(g.t, l.Start, n.Start, "an earlier lock")
		}
	}
	require.True(g.t, own, "no such lock: %v of owner %d", l.Range, other)
}

// check compares the locks of all owners with the model, and checks the trees.
func (g *lockModel) check() {
	var shared, exclusive int
	for w, owner := range g.owners {
		want := g.list(w)
		require.Equal(g.t, len(want), owner.Len(), "locks of owner %d", w)
		counts := map[*Part]int{}
		require.Equal(g.t, len(want), checkTree(g.t, owner.locks.top, ofOwner))
		locks := slices.Collect(owner.locks.eachNode)
		for i, n := range locks {
			require.Equal(g.t, want[i], node{Range: n.Range, part: n.part, exclusive: n.exclusive}, "lock %d of owner %d", i, w)
			counts[n.part]++
			if n.exclusive {
				exclusive++
			} else {
				shared++
			}
		}
		for _, p := range g.parts[w] {
			require.Equal(g.t, counts[p], p.Len())
			require.Equal(g.t, counts[p], checkTree(g.t, p.locks.top, ofPart))
			var ranges, want []Range
			p.Ranges(func(r Range) bool { ranges = append(ranges, r); return true })
			for _, n := range locks {
				if n.part == p {
					want = append(want, n.Range)
				}
			}
			require.Equal(g.t, want, ranges)
		}
	}
	require.Equal(g.t, shared+exclusive > 0, g.object.Locked())
	require.Equal(g.t, shared, checkTree(g.t, g.object.shared.top, ofObject))
	require.Equal(g.t, exclusive, checkTree(g.t, g.object.exclusive.top, ofObject))
}

// checkTree checks order, priorities and reaches, and returns the number of
// nodes.
func checkTree(t testing.TB, n *node, kind int) int {
	if n == nil {
		return 0
	}
	if kind == ofObject {
		far, next := n.far, n.next
		n.updateReach()
		require.Equal(t, [2]reach{far, next}, [2]reach{n.far, n.next})
	}
	left, right := n.below[kind].left, n.below[kind].right
	for side, below := range []*node{left, right} {
		if below != nil {
			require.LessOrEqual(t, below.priority, n.priority)
			require.Equal(t, side == 0, below.less(n))
		}
	}
	return 1 + checkTree(t, left, kind) + checkTree(t, right, kind)
}

// checkUnion compares the union with the model within the bytes from i to j.
func (g *lockModel) checkUnion(i, j int) {
	type part struct {
		Range
		exclusive bool
	}
	var want, got []part
	each(i, j, func(k int, gap bool) {
		r := rangeOf(k, k)
		if gap {
			r = Range{offsetOf(k) + 1, offsetOf(k+1) - 1}
		}
		var any, exclusive bool
		for w := range g.owners {
			c := g.at(w, k, gap)
			any, exclusive = any || c.part != 0, exclusive || c.exclusive
		}
		if n := len(want); any && n > 0 && want[n-1].exclusive == exclusive && want[n-1].End+1 == r.Start {
			want[n-1].End = r.End
		} else if any {
			want = append(want, part{r, exclusive})
		}
	})
	g.object.Union(rangeOf(i, j), func(r Range, exclusive bool) bool {
		got = append(got, part{r, exclusive})
		return true
	})
	require.Equal(g.t, want, got, "union of %v", rangeOf(i, j))
}

func TestAgainstModel(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			g := newLockModel(t)
			for range 400 {
				i := r.IntN(modelBytes)
				j := i
				if r.IntN(3) > 0 {
					j = r.IntN(modelBytes)
				}
				g.step(r.IntN(8), r.IntN(modelOwners), r.IntN(modelParts), i, j)
			}
		})
	}
}

func FuzzLocks(f *testing.F) {
	f.Add([]byte{0, 0, 0, 35, 1, 1, 3, 5, 4, 0, 10, 20})
	f.Add([]byte{1, 0, 35, 35, 1, 1, 34, 35, 5, 0, 0, 35})
	f.Fuzz(func(t *testing.T, b []byte) {
		g := newLockModel(t)
		for range min(len(b)/4, 200) {
			g.step(int(b[0]), int(b[1])%modelOwners, int(b[1])/modelOwners%modelParts, int(b[2])%modelBytes, int(b[3])%modelBytes)
			b = b[4:]
		}
	})
}

// R8881-9.2-1: one owner's calls, step by step: split, merge, upgrade and
// downgrade.
//
// R8881-18.10.4-4.
func TestRanges(t *testing.T) {
	var o Object
	w := o.NewOwner(nil)
	p, q := w.NewPart(), w.NewPart()
	list := func() (all []string) {
		for n := range w.locks.eachNode {
			kind := map[Kind]string{Shared: "shared", Exclusive: "exclusive"}[KindOf(n.exclusive)]
			all = append(all, fmt.Sprintf("%s %d-%d", kind, n.Start, n.End))
		}
		return all
	}
	steps := []struct {
		do   func()
		want []string
	}{
		{func() { p.Lock(Range{10, 19}, false) }, []string{"shared 10-19"}},
		{func() { p.Lock(Range{12, 12}, true) }, []string{"shared 10-11", "exclusive 12-12", "shared 13-19"}},
		{func() { p.Lock(Range{12, 12}, false) }, []string{"shared 10-19"}},
		{func() { w.Unlock(Range{15, 15}) }, []string{"shared 10-14", "shared 16-19"}},
		{func() { p.Lock(Range{20, 29}, false) }, []string{"shared 10-14", "shared 16-29"}},
		{func() { p.Lock(Range{0, ToEnd}, true) }, []string{fmt.Sprint("exclusive 0-", ToEnd)}},
		{func() { w.Unlock(Range{1, ToEnd}) }, []string{"exclusive 0-0"}},
		{func() { q.Lock(Range{1, 1}, true) }, []string{"exclusive 0-0", "exclusive 1-1"}},
		{func() { p.Lock(Range{1, 1}, true) }, []string{"exclusive 0-1"}},
		{func() { q.Lock(Range{0, 0}, true) }, []string{"exclusive 0-0", "exclusive 1-1"}},
		{func() { p.Drop() }, []string{"exclusive 0-0"}},
		{func() { w.Unlock(Range{0, 0}) }, nil},
	}
	for i, s := range steps {
		s.do()
		assert.Equal(t, s.want, list(), "step %d", i)
	}
	assert.Zero(t, p.Len()+q.Len()+w.Len())
}

// A thousand owners have ten thousand locks on one object. Each fails to lock the whole object, and
// locks and unlocks a free range.
func BenchmarkManyLocks(b *testing.B) {
	const owners, each, gap = 1000, 10, 100
	var o Object
	var parts []*Part
	for i := range owners {
		p := o.NewOwner(i).NewPart()
		parts = append(parts, p)
		for j := range each {
			start := uint64(gap * (j*owners + i))
			p.Lock(Range{start, start + gap/2}, j%2 == 0)
		}
	}
	order := rand.New(rand.NewPCG(1, 1)).Perm(owners)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		i := order[n%owners]
		p := parts[i]
		if _, is := o.Conflict(p.Owner(), Range{0, ToEnd}, false); !is {
			b.Fatal("no conflict")
		}
		at := uint64(gap*i + gap/2 + 1)
		free := Range{at, at + gap/4}
		if _, is := o.Conflict(p.Owner(), free, true); is {
			b.Fatal("a conflict")
		}
		p.Lock(free, true)
		p.Owner().Unlock(free)
	}
}

// The depth of a tree is small for any order of locks.
func TestDepth(t *testing.T) {
	const n = 1 << 14
	up := make([]int, n)
	for i := range up {
		up[i] = i
	}
	down := slices.Clone(up)
	slices.Reverse(down)
	for name, order := range map[string][]int{"up": up, "down": down} {
		var o Object
		p := o.NewOwner(nil).NewPart()
		for _, i := range order {
			p.Lock(Range{uint64(2 * i), uint64(2 * i)}, true)
		}
		var depth func(n *node) int
		depth = func(n *node) int {
			if n == nil {
				return 0
			}
			return 1 + max(depth(n.below[ofObject].left), depth(n.below[ofObject].right))
		}
		assert.Less(t, depth(o.exclusive.top), 80, name)
	}
}

// A call's cost depends on the locks that it removes, and not on how many others the owner has: the
// bound is twenty-five times the depth of a tree.
func TestStepsAmongManyLocks(t *testing.T) {
	const n, bound = 1 << 14, 1000
	var o Object
	w := o.NewOwner("many")
	other := o.NewOwner("other")
	parts := make([]*Part, n)
	do := func(f func()) {
		before := o.visited
		f()
		require.Less(t, o.visited-before, uint64(bound))
	}
	for i := range parts {
		parts[i] = w.NewPart()
		do(func() { parts[i].Lock(Range{uint64(4 * i), uint64(4*i + 2)}, i%2 == 0) })
	}
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
		at := uint64(4*i + 1)
		do(func() { o.Conflict(other, Range{at, at}, true) })
		do(func() { w.Unlock(Range{at, at}) })
		do(func() { parts[i].Lock(Range{at, at}, true) })
		do(func() { require.NotEmpty(t, slices.Collect(parts[i].Ranges)) })
		do(func() { require.NotEmpty(t, slices.Collect(parts[i].Within(Range{at - 1, at}))) })
		do(parts[i].Drop)
	}
	assert.Zero(t, w.Len())
}

// A range is cut before the lock that is one too many.
func TestHead(t *testing.T) {
	var o Object
	w := o.NewOwner(nil)
	p := w.NewPart()
	for _, at := range []uint64{10, 20, 30} {
		p.Lock(Range{at, at + 4}, true)
	}
	for _, tt := range []struct {
		r    Range
		n    int
		want Range
	}{
		{Range{0, 9}, 1, Range{0, 9}},
		{Range{0, ToEnd}, 1, Range{0, 19}},
		{Range{12, ToEnd}, 2, Range{12, 29}},
		{Range{0, ToEnd}, 3, Range{0, ToEnd}},
		{Range{15, 22}, 1, Range{15, 22}},
		{Range{15, 19}, 1, Range{15, 19}},
		{Range{11, 31}, 2, Range{11, 29}},
	} {
		assert.Equal(t, tt.want, w.Head(tt.r, tt.n), "%v with %d locks", tt.r, tt.n)
	}
}
