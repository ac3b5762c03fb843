package billy

import "slices"

// linkNode gives a node another name.
func (t *nodeTable) linkNode(n, dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := place{dir, name}
	if n.gone || dir.gone || slices.Contains(n.places, p) {
		return
	}
	if old := dir.kids[name]; old != nil {
		t.dropPlace(old, p)
	}
	if len(n.places) == maxPlaces {
		t.removePlace(n, n.places[0])
	}
	t.addPlace(n, p)
	t.markUsed(n)
}

// addPlace gives n a name.
func (t *nodeTable) addPlace(n *node, p place) {
	n.places = append(n.places, p)
	if p.dir.kids == nil {
		p.dir.kids = make(map[string]*node)
	}
	p.dir.kids[p.name] = n
}

// removePlace removes a name from n.
func (t *nodeTable) removePlace(n *node, p place) {
	n.places = slices.DeleteFunc(n.places, func(q place) bool { return q == p })
	if p.dir.kids[p.name] == n {
		delete(p.dir.kids, p.name)
	}
}

// dropPlace is removePlace for an object that is gone: with its last name the node is dropped.
func (t *nodeTable) dropPlace(n *node, p place) {
	if t.removePlace(n, p); len(n.places) == 0 {
		t.dropNode(n)
	}
}

// unlinkPlace is dropPlace for a name that was removed, or found missing.
func (t *nodeTable) unlinkPlace(n *node, p place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !n.gone && slices.Contains(n.places, p) {
		t.dropPlace(n, p)
	}
}

// dropFirstPlace is unlinkPlace for the name that pathNames returns.
func (t *nodeTable) dropFirstPlace(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !n.gone && len(n.places) > 0 {
		t.dropPlace(n, n.places[0])
	}
}

// moveNode gives the object at from the name to, and replaces an object there.
func (t *nodeTable) moveNode(from, to place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := to.dir.kids[to.name]; old != nil {
		t.dropPlace(old, to)
	}
	n := from.dir.kids[from.name]
	if n == nil {
		return
	}
	t.forgetPaths(n)
	t.removePlace(n, from)
	if to.dir.gone {
		t.dropNode(n)
		return
	}
	t.addPlace(n, to)
}

// forgetPaths notifies Handles that the handles for a node and all nodes below it no longer belong
// to their paths. They stay in the table.
func (t *nodeTable) forgetPaths(n *node) {
	t.handles.Forget(n.handle.AppendTo(nil))
	for _, kid := range n.kids {
		t.forgetPaths(kid)
	}
}
