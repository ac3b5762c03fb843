package locks

import "math/rand/v2"

// A node is a lock of an owner, and its place in the tree of its object. The
// owner's list and the tree have the same nodes.
type node struct {
	Range
	part      *Part
	exclusive bool

	// The tree is a treap: ordered by less, with the highest priority at the
	// top. Priorities are random, so that no order of locks makes a tree deep.
	priority    uint64
	left, right *node

	// far is the farthest end of a lock below and including this lock, and next
	// the farthest end of another owner's lock.
	far, next reach
}

// A reach is how far locks of an owner reach. Without an owner the reach is of
// no lock.
type reach struct {
	owner *Owner
	end   uint64
}

// alike reports whether n and m would merge if n and m were neighbours.
func (n *node) alike(m *node) bool { return n.part == m.part && n.exclusive == m.exclusive }

// cut returns a lock like n of another range.
func (n *node) cut(r Range) *node { return &node{Range: r, part: n.part, exclusive: n.exclusive} }

// less orders nodes by their starts. Locks of one owner have different starts.
func (n *node) less(m *node) bool {
	if n.Start != m.Start {
		return n.Start < m.Start
	}
	return n.part.owner.number < m.part.owner.number
}

// update sets far and next from the node itself and from the nodes below.
func (n *node) update() {
	n.far, n.next = reach{n.part.owner, n.End}, reach{}
	for _, below := range [...]*node{n.left, n.right} {
		if below != nil {
			n.add(below.far)
			n.add(below.next)
		}
	}
}

func (n *node) add(r reach) {
	switch {
	case r.owner == nil:
	case r.owner == n.far.owner:
		n.far.end = max(n.far.end, r.end)
	case r.end > n.far.end:
		n.far, n.next = r, n.far
	case n.next.owner == nil || r.end > n.next.end:
		n.next = r
	}
}

// reaches reports whether a lock of an owner other than w ends at or after
// offset off. n may be nil.
func (n *node) reaches(off uint64, w *Owner) bool {
	if n == nil {
		return false
	}
	r := n.far
	if r.owner == w {
		r = n.next
	}
	return r.owner != nil && r.end >= off
}

// A tree has locks of one kind, in the order of their starts.
type tree struct{ top *node }

// first returns the first lock that overlaps r and has another owner than w, or
// nil.
func (t *tree) first(r Range, w *Owner) *node {
	for n := t.top; n != nil; {
		switch {
		case n.left.reaches(r.Start, w):
			// If that lock does not overlap r, the lock starts after r, and so
			// do n and all nodes to the right of n.
			n = n.left
		case n.Start > r.End:
			return nil
		case n.part.owner != w && n.End >= r.Start:
			return n
		default:
			n = n.right
		}
	}
	return nil
}

// reach returns the farthest end of the locks that start at or before offset
// off, or 0.
func (t *tree) reach(off uint64) (end uint64) {
	for n := t.top; n != nil; {
		if n.Start > off {
			n = n.left
			continue
		}
		end = max(end, n.End)
		if n.left != nil {
			end = max(end, n.left.far.end)
		}
		n = n.right
	}
	return end
}

func (t *tree) insert(n *node) {
	n.priority = rand.Uint64()
	t.top = insert(t.top, n)
}

func (t *tree) remove(n *node) { t.top = remove(t.top, n) }

// insert returns the top of a tree with n.
func insert(top, n *node) *node {
	switch {
	case top == nil:
		n.left, n.right = nil, nil
		top = n
	case n.priority > top.priority:
		n.left, n.right = split(top, n)
		top = n
	case n.less(top):
		top.left = insert(top.left, n)
	default:
		top.right = insert(top.right, n)
	}
	top.update()
	return top
}

// split returns the nodes before n and the nodes after n.
func split(top, n *node) (before, after *node) {
	if top == nil {
		return nil, nil
	}
	if top.less(n) {
		before = top
		top.right, after = split(top.right, n)
	} else {
		after = top
		before, top.left = split(top.left, n)
	}
	top.update()
	return before, after
}

// remove returns the top of a tree without n.
func remove(top, n *node) *node {
	switch {
	case top == n:
		return join(n.left, n.right)
	case n.less(top):
		top.left = remove(top.left, n)
	default:
		top.right = remove(top.right, n)
	}
	top.update()
	return top
}

// join returns the top of a tree of two, all of whose nodes are in order.
func join(before, after *node) *node {
	switch {
	case before == nil:
		return after
	case after == nil:
		return before
	case before.priority > after.priority:
		before.right = join(before.right, after)
		before.update()
		return before
	}
	after.left = join(before, after.left)
	after.update()
	return after
}
