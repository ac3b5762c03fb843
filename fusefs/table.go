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
	seen nfs3.Time
}

func newTable(root nfs3.FH) *table {
	t := &table{nodes: make(map[uint64]*node), byFH: make(map[string]*node), names: make(map[place]named)}
	n := &node{id: fuse.FUSE_ROOT_ID, fh: root, lookups: 1}
	t.nodes[n.id], t.byFH[string(root)], t.last = n, n, n.id
	return t
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
// kernel is told of once more, under a name that dir had at its mtime seen.
func (t *table) refer(fh nfs3.FH, dir *node, name string, seen nfs3.Time) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byFH[string(fh)]
	if n == nil {
		t.last++
		n = &node{id: t.last, fh: fh}
		t.nodes[n.id], t.byFH[string(fh)] = n, n
	}
	n.lookups++
	t.nameLocked(place{dir.id, name}, named{n, seen})
	return n
}

// recall finds what was at a name when dir's mtime was seen, and counts that
// the kernel is told of it once more.
func (t *table) recall(dir *node, name string, seen nfs3.Time) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.names[place{dir.id, name}]
	if n.node == nil || n.seen != seen {
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

// rename notes that what was at one name is at another.
func (t *table) rename(from *node, name string, to *node, newName string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.names[place{from.id, name}].node
	t.unnameLocked(place{from.id, name})
	t.unnameLocked(place{to.id, newName})
	if n != nil {
		t.nameLocked(place{to.id, newName}, named{n, noTime})
	}
}

// forget takes back count times that the kernel was told of a node.
func (t *table) forget(id, count uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.nodes[id]; n != nil && id != fuse.FUSE_ROOT_ID {
		n.lookups -= min(count, n.lookups)
		t.dropLocked(n)
	}
}

// dropLocked drops a node that nobody needs.
func (t *table) dropLocked(n *node) {
	if n.lookups > 0 || n.opens > 0 {
		return
	}
	for len(n.places) > 0 {
		t.unnameLocked(n.places[0])
	}
	delete(t.nodes, n.id)
	delete(t.byFH, string(n.fh))
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
	defer t.mu.Unlock()
	n.opens--
	t.dropLocked(n)
	return n.opens == 0
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
