package fusefs

import (
	lru "container/list"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A table holds the nodes that the kernel knows, by number and by file handle,
// and the names under which the kernel knows them.
//
//	LOOKUP … ─▶ refer ─▶ node ◀─ nodeid ─ all other requests
//	             │        │        FORGET ─▶ park, unless it is open
//	names of a directory ─┘
//
// Nodes that the kernel has forgotten are kept for some time, with their known
// state and delegations: the kernel forgets nodes when it needs memory, and
// asks for them again.
//
// A number is used for one file handle only. All nodes therefore have the same
// generation.
type table struct {
	m      *Mount
	mu     sync.RWMutex
	nodes  map[uint64]*node
	byFH   map[string]*node
	parked lru.List // *node forgotten by the kernel, the latest first
	last   uint64   // the last number given to a node

	// specials holds the names under which the kernel knows special files, and
	// whether by the number with shutBit.
	specials map[place]bool

	unclaimed unclaimed

	room    int // for nodes known to the kernel
	pruning bool
	pruned  time.Time // end of the last pruning
}

// A place is a name in a directory.
type place struct {
	dir  *node
	name string
}

// A named is the node at a place, seen there while the directory's mtime was
// seen.
type named struct {
	*node
	seen  nfs3.Time
	grant uint64 // of the directory, if still held; 0: none
}

// A sight describes how a name was seen in a directory: while the directory's
// mtime was mtime, by a call that began at tick began, and that itself made the
// name if made is set.
type sight struct {
	mtime nfs3.Time
	began uint64
	made  bool
}

func newTable(m *Mount, root nfs3.FH) *table {
	t := &table{m: m, nodes: make(map[uint64]*node), byFH: make(map[string]*node), room: maxKnown}
	t.addLocked(fuse.FUSE_ROOT_ID, root).lookups = 1
	return t
}

// addLocked creates a node.
func (t *table) addLocked(id uint64, fh nfs3.FH) *node {
	n := &node{m: t.m, id: id, fh: fh}
	t.unclaimed.claim(n)
	t.nodes[id], t.byFH[unsafe.String(unsafe.SliceData(fh), len(fh))], t.last = n, n, id // fh is never changed
	return n
}

// node returns the node that the kernel knows by id, with or without shutBit,
// or nil.
func (t *table) node(id uint64) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := t.nodes[id&^shutBit]
	if n != nil && !n.used.Load() {
		n.used.Store(true)
	}
	return n
}

// known returns the node of a file handle, or nil.
func (t *table) known(fh nfs3.FH) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byFH[string(fh)]
}

// refer finds or creates the node of a file handle, counts one more reference
// of the kernel, and records the node's name in dir as seen. It returns the
// grant of dir under which the name was seen, or 0. refer keeps fh.
func (t *table) refer(fh nfs3.FH, dir *node, name string, s sight) (n *node, grant uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n = t.byFH[string(fh)]; n == nil {
		n = t.addLocked(t.last+1, fh)
	}
	t.referLocked(n)
	t.addedLocked()
	grant = dir.grantOf(s)
	t.nameLocked(dir, name, named{n, s.mtime, grant})
	return n, grant
}

// referLocked counts one more reference of the kernel to n.
func (t *table) referLocked(n *node) {
	n.lookups++
	if n.parked != nil {
		t.parked.Remove(n.parked)
		n.parked = nil
	}
}

// lookupCached returns the node seen at a name under grant, or, if grant is 0,
// when dir's mtime was seen, and counts one more reference of the kernel. It
// returns nil if there is none.
func (t *table) lookupCached(dir *node, name string, seen nfs3.Time, grant uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := dir.asDir().names[name]
	if n.node == nil || n.grant != grant && grant != 0 || n.seen != seen && grant == 0 {
		return nil
	}
	t.referLocked(n.node)
	return n.node
}

// nameLocked records the node at a name.
func (t *table) nameLocked(dir *node, name string, n named) {
	d := dir.asDir()
	if d.names[name].node != n.node {
		t.unnameLocked(dir, name)
		n.places = append(n.places, place{dir, name})
	}
	if d.names == nil {
		d.names = make(map[string]named)
	}
	d.names[name] = n
}

// unnameLocked forgets the node at a name.
func (t *table) unnameLocked(dir *node, name string) {
	d := dir.asDir()
	n := d.names[name].node
	if n == nil {
		return
	}
	delete(d.names, name)
	delete(t.specials, place{dir, name})
	for i, p := range n.places {
		if p.dir == dir && p.name == name {
			n.places = slices.Delete(n.places, i, i+1)
			return
		}
	}
}

// loseLocked forgets all names of n.
func (t *table) loseLocked(n *node) {
	for len(n.places) > 0 {
		t.unnameLocked(n.places[0].dir, n.places[0].name)
	}
}

// child returns the node that the kernel believes to be at a name, or nil.
func (t *table) child(dir *node, name string) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return dir.asDir().names[name].node
}

// unname records that nothing is at a name any more.
func (t *table) unname(dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unnameLocked(dir, name)
}

// doubt records that the node at a name may not be there any more.
func (t *table) doubt(dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := dir.asDir()
	if n := d.names[name]; n.node != nil {
		d.names[name] = named{n.node, noTime, 0}
	}
}

// namesIn returns the names in a directory that the kernel may know.
func (t *table) namesIn(dir *node) (list []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for name := range dir.asDir().names {
		list = append(list, name)
	}
	return list
}

// lose forgets all names of n.
func (t *table) lose(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loseLocked(n)
}

// rename records the renaming of a name by a call that began at tick began.
func (t *table) rename(from *node, name string, to *node, newName string, began uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := from.asDir().names[name].node
	t.unnameLocked(from, name)
	t.unnameLocked(to, newName)
	if n != nil {
		t.nameLocked(to, newName, named{n, noTime, to.grantOf(sight{began: began, made: true})})
	}
}

// forget takes back count references of the kernel to a node.
func (t *table) forget(id, count uint64) {
	id &^= shutBit
	t.mu.Lock()
	var dropped *node
	if n := t.nodes[id]; n != nil && id != fuse.FUSE_ROOT_ID {
		n.lookups -= min(count, n.lookups)
		dropped = t.releaseLocked(n)
	}
	t.mu.Unlock()
	t.ended(dropped)
}

// knows reports whether the kernel knows n, or will know n by a reply under
// way.
func (t *table) knows(n *node) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.lookups > 0 || n.opens > 0
}

// releaseLocked parks a node that is no longer in use. It drops the node
// instead if no name leads to it any more, or if its state is uncertain. It
// returns the dropped node, or nil.
func (t *table) releaseLocked(n *node) (dropped *node) {
	switch {
	case n.lookups > 0 || n.opens > 0 || n.parked != nil:
		return nil
	case len(n.places) == 0 || n.uncertain.Load():
		t.dropLocked(n)
		return n
	}
	n.forgotten()
	n.parked = t.parked.PushFront(n)
	if t.parked.Len() <= maxParked {
		return nil
	}
	dropped = t.parked.Remove(t.parked.Back()).(*node)
	dropped.parked = nil
	t.dropLocked(dropped)
	return dropped
}

// dropLocked drops a node.
func (t *table) dropLocked(n *node) {
	t.loseLocked(n)
	if d := n.directory.Load(); d != nil {
		for name := range d.names {
			t.unnameLocked(n, name)
		}
	}
	delete(t.nodes, n.id)
	delete(t.byFH, string(n.fh))
	if dropped := t.unclaimed.keep(n); len(dropped) > 0 {
		t.m.notes.Go(func() { t.m.complainLost(dropped) })
	}
}

// ended calls unheld for a dropped node, which may be nil.
func (t *table) ended(dropped *node) {
	if dropped != nil {
		dropped.unheld()
	}
}

// open counts an open file of n.
func (t *table) open(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.opens++
}

// isOpen reports whether n has open files.
func (t *table) isOpen(n *node) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.opens > 0
}

// close counts down the open files of n, and reports whether the last was
// closed.
func (t *table) close(n *node) bool {
	t.mu.Lock()
	n.opens--
	last, dropped := n.opens == 0, t.releaseLocked(n)
	t.mu.Unlock()
	t.ended(dropped)
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
