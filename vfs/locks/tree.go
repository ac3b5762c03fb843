package locks

import "math/rand/v2"

// A node is an owner's lock, or a Request. A lock is in three trees: in one of its object's, in its
// owner's, and in its Part's. A Request is in one of its Queue's.
type node struct {
	Range
	owner     *Owner
	part      *Part // nil: a Request
	exclusive bool
	number    uint64   // a Request's
	request   *Request // nil: a lock

	// A tree is a treap: ordered by less, with the highest priority at the top.
	// Priorities are random, so that no order of locks makes a tree deep.
	priority uint64
	below    [trees]struct{ left, right *node }

	// In an object's tree, far is the farthest lock end at or below this node, and next the
	// farthest end of another owner's lock.
	far, next reach
}

// The trees that a node can be in.
const (
	ofObject = iota
	ofOwner
	ofPart
	trees
)

// A reach is the farthest end of an owner's locks. Without an owner there is no lock.
type reach struct {
	owner *Owner
	end   uint64
}

// newNode returns a lock in an owner's Part.
func newNode(r Range, p *Part, exclusive bool) *node {
	return &node{Range: r, owner: p.owner, part: p, exclusive: exclusive, priority: rand.Uint64()}
}

// mergesWith reports whether n and m would merge if n and m were neighbours.
func (n *node) mergesWith(m *node) bool { return n.part == m.part && n.exclusive == m.exclusive }

// withRange returns a lock like n with another range.
func (n *node) withRange(r Range) *node { return newNode(r, n.part, n.exclusive) }

// less orders nodes by their starts. One owner's locks have different starts.
func (n *node) less(m *node) bool {
	switch {
	case n.Start != m.Start:
		return n.Start < m.Start
	case n.owner != m.owner:
		return n.owner.number < m.owner.number
	}
	return n.number < m.number
}

// updateReach sets far and next from the node itself and from the nodes below.
func (n *node) updateReach() {
	n.far, n.next = reach{n.owner, n.End}, reach{}
	for _, below := range [...]*node{n.below[ofObject].left, n.below[ofObject].right} {
		if below != nil {
			n.addReach(below.far)
			n.addReach(below.next)
		}
	}
}

func (n *node) addReach(r reach) {
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

// reachesOffset reports whether another owner's lock ends at or after offset off. n may be nil.
func (n *node) reachesOffset(off uint64, w *Owner) bool {
	if n == nil {
		return false
	}
	r := n.far
	if r.owner == w {
		r = n.next
	}
	return r.owner != nil && r.end >= off
}

// A tree has nodes ordered by start. kind is the tree's kind; the zero tree is an object's.
type tree struct {
	top  *node
	kind int
}

// firstConflict returns the first lock that overlaps r and has another owner than w, or
// nil.
func (t *tree) firstConflict(r Range, w *Owner) *node {
	for n := t.top; n != nil; {
		n.owner.object.visited++
		switch {
		case n.below[ofObject].left.reachesOffset(r.Start, w):
			// If that lock does not overlap r, the lock starts after r, and so
			// do n and all nodes to the right of n.
			n = n.below[ofObject].left
		case n.Start > r.End:
			return nil
		case n.owner != w && n.End >= r.Start:
			return n
		default:
			n = n.below[ofObject].right
		}
	}
	return nil
}

// farthestEnd returns the farthest end of the locks that start at or before offset
// off, or 0.
func (t *tree) farthestEnd(off uint64) (end uint64) {
	for n := t.top; n != nil; {
		n.owner.object.visited++
		if n.Start > off {
			n = n.below[ofObject].left
			continue
		}
		end = max(end, n.End)
		if left := n.below[ofObject].left; left != nil {
			end = max(end, left.far.end)
		}
		n = n.below[ofObject].right
	}
	return end
}

// firstOverlap returns the first node below and including n that comes after another node
// and overlaps r. after may be nil.
func (n *node) firstOverlap(r Range, after *node) *node {
	if !n.reachesOffset(r.Start, nil) {
		return nil
	}
	n.owner.object.visited++
	if after == nil || after.less(n) {
		if first := n.below[ofObject].left.firstOverlap(r, after); first != nil {
			return first
		}
		switch {
		case n.Start > r.End:
			return nil
		case n.End >= r.Start:
			return n
		}
	}
	return n.below[ofObject].right.firstOverlap(r, after)
}

// firstFrom returns the first node of an owner's tree that ends at or after offset off, or nil.
// Locks of an owner do not overlap.
func (t *tree) firstFrom(off uint64) (first *node) {
	for n := t.top; n != nil; {
		n.owner.object.visited++
		if n.End < off {
			n = n.below[t.kind].right
		} else {
			first, n = n, n.below[t.kind].left
		}
	}
	return first
}

// lastBefore returns the last node that starts before offset off, or nil.
func (t *tree) lastBefore(off uint64) (last *node) {
	for n := t.top; n != nil; {
		n.owner.object.visited++
		if n.Start < off {
			last, n = n, n.below[t.kind].right
		} else {
			n = n.below[t.kind].left
		}
	}
	return last
}

// eachNode calls yield for the nodes in order, until yield returns false. yield must not change the
// tree.
func (t *tree) eachNode(yield func(*node) bool) { t.eachBelow(t.top, yield) }

func (t *tree) eachBelow(n *node, yield func(*node) bool) bool {
	if n == nil {
		return true
	}
	n.owner.object.visited++
	return t.eachBelow(n.below[t.kind].left, yield) && yield(n) && t.eachBelow(n.below[t.kind].right, yield)
}

func (t *tree) insertNode(n *node) { t.top = t.insertBelow(t.top, n) }

func (t *tree) removeNode(n *node) { t.top = t.removeBelow(t.top, n) }

// updateNode is node.updateReach where that is needed.
func (t *tree) updateNode(n *node) {
	n.owner.object.visited++
	if t.kind == ofObject {
		n.updateReach()
	}
}

// insertBelow inserts n and returns the new top.
func (t *tree) insertBelow(top, n *node) *node {
	switch k := t.kind; {
	case top == nil:
		n.below[k].left, n.below[k].right = nil, nil
		top = n
	case n.priority > top.priority:
		n.below[k].left, n.below[k].right = t.splitAt(top, n)
		top = n
	case n.less(top):
		top.below[k].left = t.insertBelow(top.below[k].left, n)
	default:
		top.below[k].right = t.insertBelow(top.below[k].right, n)
	}
	t.updateNode(top)
	return top
}

// splitAt returns the nodes before n and the nodes after n.
func (t *tree) splitAt(top, n *node) (before, after *node) {
	if top == nil {
		return nil, nil
	}
	if below := &top.below[t.kind]; top.less(n) {
		before = top
		below.right, after = t.splitAt(below.right, n)
	} else {
		after = top
		before, below.left = t.splitAt(below.left, n)
	}
	t.updateNode(top)
	return before, after
}

// removeBelow removes n and returns the new top.
func (t *tree) removeBelow(top, n *node) *node {
	switch below := &top.below[t.kind]; {
	case top == n:
		return t.joinTrees(below.left, below.right)
	case n.less(top):
		below.left = t.removeBelow(below.left, n)
	default:
		below.right = t.removeBelow(below.right, n)
	}
	t.updateNode(top)
	return top
}

// joinTrees joins two trees, all of whose nodes are in order, and returns the top.
func (t *tree) joinTrees(before, after *node) *node {
	switch {
	case before == nil:
		return after
	case after == nil:
		return before
	case before.priority > after.priority:
		before.below[t.kind].right = t.joinTrees(before.below[t.kind].right, after)
		t.updateNode(before)
		return before
	}
	after.below[t.kind].left = t.joinTrees(before, after.below[t.kind].left)
	t.updateNode(after)
	return after
}
