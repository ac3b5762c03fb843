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

// A table holds the nodes that the kernel knows, by its number and by file
// handle, and under which names it knows them.
//
//	LOOKUP … ─▶ refer ─▶ node ◀─ nodeid ─ all other requests
//	             │        │        FORGET ─▶ park, unless it is open
//	names of a directory ─┘
//
// What the kernel has forgotten is kept for some time, with all that is known and held
// of it: the kernel forgets what it wants room for, and asks for it again.
//
// A number is used for one file handle only, so that all nodes have the same
// generation.
type table struct {
	m      *Mount
	mu     sync.RWMutex
	nodes  map[uint64]*node
	byFH   map[string]*node
	parked lru.List // of *node that the kernel has forgotten, the last one first
	last   uint64   // number given

	unclaimed unclaimed

	room    int // for nodes that the kernel knows
	pruning bool
	pruned  time.Time // when that ended
}

// A place is a name in a directory.
type place struct {
	dir  *node
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
	t := &table{m: m, nodes: make(map[uint64]*node), byFH: make(map[string]*node), room: maxKnown}
	t.addLocked(fuse.FUSE_ROOT_ID, root).lookups = 1
	return t
}

// addLocked makes a node.
func (t *table) addLocked(id uint64, fh nfs3.FH) *node {
	n := &node{m: t.m, id: id, fh: fh}
	t.unclaimed.claim(n)
	t.nodes[id], t.byFH[unsafe.String(unsafe.SliceData(fh), len(fh))], t.last = n, n, id // nobody changes fh
	return n
}

// node finds a node that the kernel knows, by either number.
func (t *table) node(id uint64) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := t.nodes[id&^shutBit]
	if n != nil && !n.used.Load() {
		n.used.Store(true)
	}
	return n
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
	t.referLocked(n)
	t.addedLocked()
	grant = dir.grantOf(s)
	t.nameLocked(dir, name, named{n, s.mtime, grant})
	return n, grant
}

// referLocked counts that the kernel is told of n.
func (t *table) referLocked(n *node) {
	n.lookups++
	if n.parked != nil {
		t.parked.Remove(n.parked)
		n.parked = nil
	}
}

// lookupCached finds what was at a name when dir's mtime was seen, or, where grant is not 0,
// what was seen under that, and counts that the kernel is told of it once more.
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

// nameLocked notes what is at a name.
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

// unnameLocked forgets what is at a name.
func (t *table) unnameLocked(dir *node, name string) {
	d := dir.asDir()
	n := d.names[name].node
	if n == nil {
		return
	}
	delete(d.names, name)
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

// child returns what the kernel believes to be at a name.
func (t *table) child(dir *node, name string) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return dir.asDir().names[name].node
}

// unname notes that there is nothing at a name any more.
func (t *table) unname(dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unnameLocked(dir, name)
}

// doubt notes that what is at a name may not be there any more.
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

// rename notes that what was at one name is at another, by a call that began at a
// tick.
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

// forget takes back count times that the kernel was told of a node.
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

// knows tells whether the kernel knows n, or has been told of it in a reply that is on
// its way.
func (t *table) knows(n *node) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.lookups > 0 || n.opens > 0
}

// releaseLocked parks a node that nobody needs, or drops it where it has no name any
// more, by which it might be found. It returns what is dropped, or nil.
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

// ended ends what is held of a node that was dropped; it may be nil.
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
