package locks

import "math/rand/v2"

// A Queue has the locks that an object's owners wait for. Unlike locks, those for which one owner
// waits may overlap. The zero Queue is empty.
type Queue struct {
	shared, exclusive tree
	number            uint64 // the last Request's
}

// A Request is a lock for which an owner waits.
type Request struct {
	// Tag is for the caller.
	Tag any

	node
}

// Add adds a Request.
func (q *Queue) Add(w *Owner, r Range, exclusive bool, tag any) *Request {
	q.number++
	x := &Request{Tag: tag, node: node{Range: r, owner: w, exclusive: exclusive, number: q.number, priority: rand.Uint64()}}
	x.node.request = x
	q.treeOf(exclusive).insertNode(&x.node)
	return x
}

// Remove removes a Request.
func (q *Queue) Remove(x *Request) { q.treeOf(x.exclusive).removeNode(&x.node) }

func (q *Queue) treeOf(exclusive bool) *tree {
	if exclusive {
		return &q.exclusive
	}
	return &q.shared
}

// Conflict returns another owner's first Request that conflicts with w locking r, or nil.
func (q *Queue) Conflict(w *Owner, r Range, exclusive bool) *Request {
	first := q.exclusive.firstConflict(r, w)
	if exclusive && first == nil {
		first = q.shared.firstConflict(r, w)
	}
	if first == nil {
		return nil
	}
	return first.request
}

// Overlapping returns the first Request that overlaps r and comes after another one, or the first
// one if after is nil, or nil. after may have been removed in the meantime.
func (q *Queue) Overlapping(r Range, after *Request) *Request {
	for _, t := range [...]*tree{&q.shared, &q.exclusive} {
		if t == &q.shared && after != nil && after.exclusive {
			continue
		}
		var last *node
		if after != nil && after.exclusive == (t == &q.exclusive) {
			last = &after.node
		}
		if n := t.top.firstOverlap(r, last); n != nil {
			return n.request
		}
	}
	return nil
}
