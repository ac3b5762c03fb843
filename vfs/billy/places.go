package billy

import "slices"

// link gives a node another name.
func (t *table) link(n, dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := place{dir, name}
	if n.gone || dir.gone || slices.Contains(n.places, p) {
		return
	}
	if old := dir.kids[name]; old != nil {
		t.leave(old, p)
	}
	if len(n.places) == maxPlaces {
		t.exit(n, n.places[0])
	}
	t.enter(n, p)
	t.use(n)
}

// enter gives n a name.
func (t *table) enter(n *node, p place) {
	n.places = append(n.places, p)
	if p.dir.kids == nil {
		p.dir.kids = make(map[string]*node)
	}
	p.dir.kids[p.name] = n
}

// exit removes a name from n.
func (t *table) exit(n *node, p place) {
	n.places = slices.DeleteFunc(n.places, func(q place) bool { return q == p })
	if p.dir.kids[p.name] == n {
		delete(p.dir.kids, p.name)
	}
}

// leave is exit for an object that is gone: with its last name the node is
// dropped.
func (t *table) leave(n *node, p place) {
	if t.exit(n, p); len(n.places) == 0 {
		t.drop(n)
	}
}

// unlink is leave for a name that was removed, or found missing.
func (t *table) unlink(n *node, p place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !n.gone && slices.Contains(n.places, p) {
		t.leave(n, p)
	}
}

// lost is unlink for the name that path returns.
func (t *table) lost(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !n.gone && len(n.places) > 0 {
		t.leave(n, n.places[0])
	}
}

// move gives the object at from the name to, and replaces an object there.
func (t *table) move(from, to place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := to.dir.kids[to.name]; old != nil {
		t.leave(old, to)
	}
	n := from.dir.kids[from.name]
	if n == nil {
		return
	}
	t.moved(n)
	t.exit(n, from)
	if to.dir.gone {
		t.drop(n)
		return
	}
	t.enter(n, to)
}

// moved tells Handles that the handles of a node and of all nodes below it no
// longer belong to their paths. They stay in the table.
func (t *table) moved(n *node) {
	t.handles.Forget(n.handle.AppendTo(nil))
	for _, kid := range n.kids {
		t.moved(kid)
	}
}
