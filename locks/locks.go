package locks

import (
	"math"
	"slices"
)

// ToEnd is the End of a Range without an end.
const ToEnd uint64 = math.MaxUint64

// A Range is a range of bytes. End is the offset of the last byte, and must not
// be below Start.
type Range struct{ Start, End uint64 }

// overlaps reports whether r and s have a byte in common.
func (r Range) overlaps(s Range) bool { return r.Start <= s.End && s.Start <= r.End }

// A Kind is how strongly a byte is locked.
type Kind uint8

// The values of Kind, the weakest first.
const (
	None Kind = iota
	Shared
	Exclusive
)

// KindOf returns the Kind of a lock.
func KindOf(exclusive bool) Kind {
	if exclusive {
		return Exclusive
	}
	return Shared
}

// A Lock is one lock of an owner.
type Lock struct {
	Range
	Exclusive bool
	Owner     *Owner
}

// An Object has the locks of one object. The zero Object has none.
type Object struct {
	shared, exclusive tree
	owners            uint64 // number of the last Owner
}

// An Owner is an owner of locks of one object.
type Owner struct {
	// Tag is for the caller. The Lock that Conflict returns has the Tag.
	Tag any

	object *Object
	number uint64
	locks  []*node // in the order of their offsets, which do not overlap
}

// A Part is a part of an owner's locks: the locks that the owner got in one
// way. Locks of different Parts do not merge, and a byte belongs to the Part
// that locked the byte last.
type Part struct {
	owner *Owner
	n     int
}

// NewOwner returns an Owner without locks. An Owner without locks may be
// forgotten.
func (o *Object) NewOwner(tag any) *Owner {
	o.owners++
	return &Owner{Tag: tag, object: o, number: o.owners}
}

// NewPart returns a Part without locks.
func (w *Owner) NewPart() *Part { return &Part{owner: w} }

// Owner returns the owner of which p is a part.
func (p *Part) Owner() *Owner { return p.owner }

// Len returns the number of locks of p.
func (p *Part) Len() int { return p.n }

// Len returns the number of locks of w. Lock raises it by 2 at most, and Unlock
// by 1.
func (w *Owner) Len() int { return len(w.locks) }

// Ranges calls yield for the range of each lock of p, in the order of the
// offsets, until yield returns false.
func (p *Part) Ranges(yield func(Range) bool) {
	if p.n == 0 {
		return
	}
	for _, n := range p.owner.locks {
		if n.part == p && !yield(n.Range) {
			return
		}
	}
}

// Within calls yield for each lock of p, cut to r, in the order of the offsets, until
// yield returns false.
func (p *Part) Within(r Range) func(yield func(Lock) bool) {
	return func(yield func(Lock) bool) {
		w := p.owner
		for i := w.find(r.Start); i < len(w.locks) && w.locks[i].Start <= r.End; i++ {
			n := w.locks[i]
			if n.part == p && !yield(Lock{Range{max(n.Start, r.Start), min(n.End, r.End)}, n.exclusive, w}) {
				return
			}
		}
	}
}

// Locked reports whether any owner has a lock.
func (o *Object) Locked() bool { return o.shared.top != nil || o.exclusive.top != nil }

// tree returns the tree of the shared or of the exclusive locks.
func (o *Object) tree(exclusive bool) *tree {
	if exclusive {
		return &o.exclusive
	}
	return &o.shared
}

// Conflict returns a lock that keeps an owner from locking r: a lock of another
// owner, unless both are shared. Of several, Conflict returns the lock that
// starts first. w may be nil, for an owner that has no locks.
func (o *Object) Conflict(w *Owner, r Range, exclusive bool) (Lock, bool) {
	first := o.exclusive.first(r, w)
	if exclusive {
		if n := o.shared.first(r, w); first == nil || n != nil && n.Start < first.Start {
			first = n
		}
	}
	if first == nil {
		return Lock{}, false
	}
	return Lock{Range: first.Range, Exclusive: first.exclusive, Owner: first.part.owner}, true
}

// Union calls yield for the union of the locks of all owners within r, in the
// order of the offsets, until yield returns false: for each byte the strongest
// kind of a lock. Neighbours of one kind are one range, cut to r.
func (o *Object) Union(r Range, yield func(part Range, exclusive bool) bool) {
	for {
		at, exclusive := o.shared.first(r, nil), false
		if x := o.exclusive.first(r, nil); at == nil || x != nil && x.Start < at.Start {
			at, exclusive = x, true
		}
		if at == nil {
			return
		}
		part := Range{max(at.Start, r.Start), at.End}
		for part.End < r.End {
			end := o.tree(exclusive).reach(part.End + 1)
			if end <= part.End {
				break
			}
			part.End = end
		}
		part.End = min(part.End, r.End)
		if !yield(part, exclusive) || part.End == r.End {
			return
		}
		r.Start = part.End + 1
	}
}

// Lock locks r for the owner of p, in place of the owner's earlier locks of r. The
// caller has made sure that Conflict finds nothing.
func (p *Part) Lock(r Range, exclusive bool) {
	p.owner.set(r, &node{Range: r, part: p, exclusive: exclusive})
}

// Unlock unlocks r for w, the bytes of every Part.
func (w *Owner) Unlock(r Range) { w.set(r, nil) }

// Splits reports whether Unlock of r would leave one lock more than before.
func (w *Owner) Splits(r Range) bool {
	i := w.find(r.Start)
	return i < len(w.locks) && w.locks[i].Start < r.Start && r.End < w.locks[i].End
}

// Drop unlocks all bytes that p has locked.
func (p *Part) Drop() {
	if p.n == 0 {
		return
	}
	w := p.owner
	rest := w.locks[:0]
	for _, n := range w.locks {
		if n.part == p {
			w.object.tree(n.exclusive).remove(n)
			continue
		}
		rest = append(rest, n)
	}
	clear(w.locks[len(rest):])
	w.locks = rest
	p.n = 0
}

// find returns the index of the first lock of w that ends at or after offset
// off.
func (w *Owner) find(off uint64) int {
	low, high := 0, len(w.locks)
	for low < high {
		if i := (low + high) / 2; w.locks[i].End < off {
			low = i + 1
		} else {
			high = i
		}
	}
	return low
}

// set replaces the locks that w has of r by n, or by nothing if n is nil. n
// grows by neighbours that are alike.
func (w *Owner) set(r Range, n *node) {
	i := w.find(r.Start)
	j := i
	for j < len(w.locks) && w.locks[j].Start <= r.End {
		j++
	}
	if n != nil && j == i+1 && w.locks[i].alike(n) && w.locks[i].Start <= r.Start && r.End <= w.locks[i].End {
		return
	}
	var left, right *node // the rests of the first and of the last lock in r
	if i < j {
		if first := w.locks[i]; first.Start < r.Start {
			left = first.cut(Range{first.Start, r.Start - 1})
		}
		if last := w.locks[j-1]; last.End > r.End {
			right = last.cut(Range{r.End + 1, last.End})
		}
	}
	switch {
	case n == nil:
	case left != nil && left.alike(n):
		n.Start, left = left.Start, nil
	case i > 0 && w.locks[i-1].alike(n) && w.locks[i-1].End+1 == r.Start:
		i--
		n.Start = w.locks[i].Start
	}
	switch {
	case n == nil:
	case right != nil && right.alike(n):
		n.End, right = right.End, nil
	case j < len(w.locks) && w.locks[j].alike(n) && w.locks[j].Start-1 == r.End:
		n.End = w.locks[j].End
		j++
	}
	w.replace(i, j, left, n, right)
}

// replace puts some nodes, of which each may be nil, in the place of the locks
// from i to j of w.
func (w *Owner) replace(i, j int, nodes ...*node) {
	for _, n := range w.locks[i:j] {
		n.part.n--
		w.object.tree(n.exclusive).remove(n)
	}
	nodes = slices.DeleteFunc(nodes, func(n *node) bool { return n == nil })
	for _, n := range nodes {
		n.part.n++
		w.object.tree(n.exclusive).insert(n)
	}
	w.locks = slices.Replace(w.locks, i, j, nodes...)
}
