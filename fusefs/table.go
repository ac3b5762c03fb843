package fusefs

import (
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A table holds the nodes that the kernel knows, by its number and by file
// handle, and under which names it knows them.
//
//	LOOKUP … ─▶ refer ─▶ node ◀─ nodeid ─ all other requests
//	             │                 FORGET ─▶ forget, unless it is open
//	names: (directory, name) ─▶ node
//
// Numbers are never used again, so that all nodes have the same generation.
type table struct {
	m     *Mount
	mu    sync.RWMutex
	nodes map[uint64]*node
	byFH  map[string]*node
	names map[place]named
	last  uint64 // number given
}

// A place is a name in a directory.
type place struct {
	dir  uint64
	name string
}

// A named is what is at a place, and was while the directory's mtime was seen.
type named struct {
	*node
	seen  nfs3.Time
	grant uint64 // of the directory, for as long as that is held; 0: none
}

// A sight is how a name was seen in a directory: while its mtime was this, by a call
// that began at a tick, and perhaps made the name.
type sight struct {
	mtime nfs3.Time
	began uint64
	made  bool
}

func newTable(m *Mount, root nfs3.FH) *table {
	t := &table{m: m, nodes: make(map[uint64]*node), byFH: make(map[string]*node), names: make(map[place]named)}
	t.addLocked(fuse.FUSE_ROOT_ID, root).lookups = 1
	return t
}

// addLocked makes a node.
func (t *table) addLocked(id uint64, fh nfs3.FH) *node {
	n := &node{m: t.m, id: id, fh: fh}
	t.m.cfg.Held.Init(&n.object, fh, n)
	t.nodes[id], t.byFH[string(fh)], t.last = n, n, id
	return n
}

// node finds a node that the kernel knows.
func (t *table) node(id uint64) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.nodes[id]
}

// known finds the node of a file handle, if there is one.
func (t *table) known(fh nfs3.FH) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byFH[string(fh)]
}

// refer finds or makes the node of a file handle, which it keeps, that the
// kernel is told of once more, under a name that was seen in dir, and returns
// the grant of dir that this was under, or 0.
func (t *table) refer(fh nfs3.FH, dir *node, name string, s sight) (n *node, grant uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n = t.byFH[string(fh)]; n == nil {
		n = t.addLocked(t.last+1, fh)
	}
	n.lookups++
	grant = dir.grantOf(s)
	t.nameLocked(place{dir.id, name}, named{n, s.mtime, grant})
	return n, grant
}

// recall finds what was at a name when dir's mtime was seen, or, where grant is not 0,
// what was seen under that, and counts that the kernel is told of it once more.
func (t *table) recall(dir *node, name string, seen nfs3.Time, grant uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.names[place{dir.id, name}]
	if n.node == nil || n.grant != grant && grant != 0 || n.seen != seen && grant == 0 {
		return nil
	}
	n.lookups++
	return n.node
}

// nameLocked notes what is at p.
func (t *table) nameLocked(p place, n named) {
	if t.names[p].node != n.node {
		t.unnameLocked(p)
		n.places = append(n.places, p)
	}
	t.names[p] = n
}

// unnameLocked forgets what is at p.
func (t *table) unnameLocked(p place) {
	n := t.names[p].node
	if n == nil {
		return
	}
	delete(t.names, p)
	for i, q := range n.places {
		if q == p {
			n.places[i] = n.places[len(n.places)-1]
			n.places = n.places[:len(n.places)-1]
			return
		}
	}
}

// child returns what the kernel believes to be at a name.
func (t *table) child(dir *node, name string) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.names[place{dir.id, name}].node
}

// unname notes that there is nothing at a name any more.
func (t *table) unname(dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unnameLocked(place{dir.id, name})
}

// doubt notes that what is at a name may not be there any more.
func (t *table) doubt(dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := place{dir.id, name}
	if n := t.names[p]; n.node != nil {
		t.names[p] = named{n.node, noTime, 0}
	}
}

// namesIn returns the names in a directory that the kernel may know.
func (t *table) namesIn(dir *node) (list []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for p := range t.names {
		if p.dir == dir.id {
			list = append(list, p.name)
		}
	}
	return list
}

// lose forgets all names of n.
func (t *table) lose(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(n.places) > 0 {
		t.unnameLocked(n.places[0])
	}
}

// rename notes that what was at one name is at another, by a call that began at a
// tick.
func (t *table) rename(from *node, name string, to *node, newName string, began uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.names[place{from.id, name}].node
	t.unnameLocked(place{from.id, name})
	t.unnameLocked(place{to.id, newName})
	if n != nil {
		t.nameLocked(place{to.id, newName}, named{n, noTime, to.grantOf(sight{began: began, made: true})})
	}
}

// forget takes back count times that the kernel was told of a node.
func (t *table) forget(id, count uint64) {
	t.mu.Lock()
	n, dropped := t.nodes[id], false
	if n != nil && id != fuse.FUSE_ROOT_ID {
		n.lookups -= min(count, n.lookups)
		dropped = t.dropLocked(n)
	}
	t.mu.Unlock()
	if dropped {
		t.m.cfg.Held.Forget(&n.object)
	}
}

// dropLocked drops a node that nobody needs, and tells whether it did.
func (t *table) dropLocked(n *node) bool {
	if n.lookups > 0 || n.opens > 0 {
		return false
	}
	for len(n.places) > 0 {
		t.unnameLocked(n.places[0])
	}
	delete(t.nodes, n.id)
	delete(t.byFH, string(n.fh))
	return true
}

// open counts an open file of n.
func (t *table) open(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.opens++
}

// isOpen tells whether n has open files.
func (t *table) isOpen(n *node) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.opens > 0
}

// close counts an open file of n less, and tells whether it was the last.
func (t *table) close(n *node) bool {
	t.mu.Lock()
	n.opens--
	last, dropped := n.opens == 0, t.dropLocked(n)
	t.mu.Unlock()
	if dropped {
		t.m.cfg.Held.Forget(&n.object)
	}
	return last
}

// all returns every node.
func (t *table) all() []*node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := make([]*node, 0, len(t.nodes))
	for _, n := range t.nodes {
		list = append(list, n)
	}
	return list
}
