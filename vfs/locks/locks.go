package locks

import "math"

// ToEnd is the End in a Range without an end.
const ToEnd uint64 = math.MaxUint64

// A Range is a range of bytes. End is the offset of the last byte, and must not
// be below Start.
type Range struct{ Start, End uint64 }

// overlaps reports whether r and s have a byte in common.
func (r Range) overlaps(s Range) bool { return r.Start <= s.End && s.Start <= r.End }

// A Kind is the strength of a lock.
type Kind uint8

// The values of Kind, the weakest first.
const (
	None Kind = iota
	Shared
	Exclusive
)

// KindOf returns a lock's Kind.
func KindOf(exclusive bool) Kind {
	if exclusive {
		return Exclusive
	}
	return Shared
}

// A Lock is one owner's lock.
type Lock struct {
	Range
	Exclusive bool
	Owner     *Owner
}

// An Object has one object's locks. The zero Object has none.
type Object struct {
	shared, exclusive tree
	owners            uint64 // number of the last Owner
	visited           uint64 // nodes that calls have looked at, a figure for tests
}

// An Owner owns locks on one object.
type Owner struct {
	// Tag is for the caller. The Lock that Conflict returns has the Tag.
	Tag any

	object *Object
	number uint64
	locks  tree // which do not overlap
	n      int
}

// A Part is a subset of an owner's locks, such as those from one open. Locks in different Parts do
// not merge, and a byte belongs to the Part that locked the byte last.
type Part struct {
	owner *Owner
	locks tree
	n     int
}

// NewOwner returns an Owner without locks. An Owner without locks may be
// forgotten.
func (o *Object) NewOwner(tag any) *Owner {
	o.owners++
	return &Owner{Tag: tag, object: o, number: o.owners, locks: tree{kind: ofOwner}}
}

// NewPart returns a Part without locks.
func (w *Owner) NewPart() *Part { return &Part{owner: w, locks: tree{kind: ofPart}} }

// Owner returns p's owner.
func (p *Part) Owner() *Owner { return p.owner }

// Len returns the number of locks in p.
func (p *Part) Len() int { return p.n }

// Len returns the number of w's locks. Lock raises it by 2 at most, and Unlock by 1.
func (w *Owner) Len() int { return w.n }

// Ranges calls yield with each lock's range in p, in offset order, until yield returns false.
func (p *Part) Ranges(yield func(Range) bool) {
	p.locks.eachNode(func(n *node) bool { return yield(n.Range) })
}

// Within calls yield for each lock in p, clipped to r, in offset order, until yield returns false.
func (p *Part) Within(r Range) func(yield func(Lock) bool) { return p.owner.within(&p.locks, r) }

// Within calls yield for each of w's locks, clipped to r, in offset order, until yield returns false.
func (w *Owner) Within(r Range) func(yield func(Lock) bool) { return w.within(&w.locks, r) }

func (w *Owner) within(t *tree, r Range) func(yield func(Lock) bool) {
	return func(yield func(Lock) bool) {
		for n := t.firstFrom(r.Start); n != nil && n.Start <= r.End; {
			if !yield(Lock{Range{max(n.Start, r.Start), min(n.End, r.End)}, n.exclusive, w}) || n.End >= r.End {
				return
			}
			n = t.firstFrom(n.End + 1)
		}
	}
}

// Locked reports whether any owner has a lock.
func (o *Object) Locked() bool { return o.shared.top != nil || o.exclusive.top != nil }

// treeOf returns the tree for shared or exclusive locks.
func (o *Object) treeOf(exclusive bool) *tree {
	if exclusive {
		return &o.exclusive
	}
	return &o.shared
}

// Conflict returns a lock that keeps an owner from locking r: another owner's lock, unless both are
// shared. If there are several, Conflict returns the lock that starts first. w may be nil, for an
// owner that has no locks.
func (o *Object) Conflict(w *Owner, r Range, exclusive bool) (Lock, bool) {
	first := o.exclusive.firstConflict(r, w)
	if exclusive {
		if n := o.shared.firstConflict(r, w); first == nil || n != nil && n.Start < first.Start {
			first = n
		}
	}
	if first == nil {
		return Lock{}, false
	}
	return Lock{Range: first.Range, Exclusive: first.exclusive, Owner: first.owner}, true
}

// Union calls yield for the union of all owners' locks within r, in offset order, until yield
// returns false: for each byte the strongest kind. Adjacent ranges with one kind are merged, and
// clipped to r.
func (o *Object) Union(r Range, yield func(part Range, exclusive bool) bool) {
	var last Range
	var kind Kind
	for part, exclusive := range o.Pieces(r) {
		if kind == KindOf(exclusive) && last.End+1 == part.Start {
			last.End = part.End
			continue
		}
		if kind != None && !yield(last, kind == Exclusive) {
			return
		}
		last, kind = part, KindOf(exclusive)
	}
	if kind != None {
		yield(last, kind == Exclusive)
	}
}

// Pieces is Union without merging adjacent ranges: each takes O(log n) steps. yield may change
// locks.
func (o *Object) Pieces(r Range) func(yield func(part Range, exclusive bool) bool) {
	return func(yield func(Range, bool) bool) {
		for {
			at, exclusive := o.shared.firstConflict(r, nil), false
			if x := o.exclusive.firstConflict(r, nil); at == nil || x != nil && x.Start < at.Start {
				at, exclusive = x, true
			}
			if at == nil {
				return
			}
			part := Range{Start: max(at.Start, r.Start)}
			part.End = min(o.treeOf(exclusive).farthestEnd(part.Start), r.End)
			if !yield(part, exclusive) || part.End == r.End {
				return
			}
			r.Start = part.End + 1
		}
	}
}

// Lock locks r for p's owner, replacing the owner's earlier locks in r. The caller has made sure
// that Conflict finds nothing.
func (p *Part) Lock(r Range, exclusive bool) {
	p.owner.setRange(r, newNode(r, p, exclusive))
}

// Unlock unlocks r for w, the bytes of every Part.
func (w *Owner) Unlock(r Range) { w.setRange(r, nil) }

// Splits reports whether unlocking r would leave one lock more than before.
func (w *Owner) Splits(r Range) bool {
	n := w.locks.firstFrom(r.Start)
	return n != nil && n.Start < r.Start && r.End < n.End
}

// Head returns the longest prefix of r in which w has at most n locks.
func (w *Owner) Head(r Range, n int) Range {
	for at := r.Start; ; n-- {
		lock := w.locks.firstFrom(at)
		switch {
		case lock == nil, lock.Start > r.End:
			return r
		case n == 0:
			return Range{r.Start, max(lock.Start, r.Start+1) - 1}
		case lock.End >= r.End:
			return r
		}
		at = lock.End + 1
	}
}

// Drop unlocks all bytes that p has locked.
func (p *Part) Drop() {
	for p.locks.top != nil {
		p.DropOne()
	}
}

// DropOne removes one lock from p, which must have any, and returns its range.
func (p *Part) DropOne() Range {
	n := p.locks.top
	p.owner.removeLock(n)
	return n.Range
}

// setRange replaces w's locks in r by n, or removes them if n is nil. n merges with adjacent locks.
func (w *Owner) setRange(r Range, n *node) {
	first := w.locks.firstFrom(r.Start)
	if n != nil && first != nil && first.mergesWith(n) && first.Start <= r.Start && r.End <= first.End {
		return
	}
	for m := first; m != nil && m.Start <= r.End; m = w.locks.firstFrom(r.Start) {
		w.removeLock(m)
		if m.Start < r.Start {
			w.insertLock(m.withRange(Range{m.Start, r.Start - 1}))
		}
		if m.End > r.End {
			w.insertLock(m.withRange(Range{r.End + 1, m.End}))
		}
	}
	if n == nil {
		return
	}
	if left := w.locks.lastBefore(r.Start); left != nil && left.mergesWith(n) && left.End+1 == r.Start {
		w.removeLock(left)
		n.Start = left.Start
	}
	if right := w.locks.firstFrom(r.End); r.End < ToEnd && right != nil && right.mergesWith(n) && right.Start == r.End+1 {
		w.removeLock(right)
		n.End = right.End
	}
	w.insertLock(n)
}

// insertLock adds a lock to all trees.
func (w *Owner) insertLock(n *node) {
	w.n++
	n.part.n++
	w.object.treeOf(n.exclusive).insertNode(n)
	w.locks.insertNode(n)
	n.part.locks.insertNode(n)
}

// removeLock removes a lock from all trees.
func (w *Owner) removeLock(n *node) {
	w.n--
	n.part.n--
	w.object.treeOf(n.exclusive).removeNode(n)
	w.locks.removeNode(n)
	n.part.locks.removeNode(n)
}
