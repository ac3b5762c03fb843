package fusefs

import (
	lru "container/list"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A nodeTable holds the nodes that the kernel knows, by number and by file handle,
// and the names under which the kernel knows them.
//
//	LOOKUP … ─▶ referNode ─▶ node ◀─ nodeid ─ all other requests
//	             │        │        FORGET ─▶ park, unless it is open
//	names of a directory ─┘
//
// Nodes that the kernel has forgotten are kept for some time, with their known
// state and delegations: the kernel forgets nodes when it needs memory, and looks
// them up again.
//
// A number is used for one file handle only. All nodes therefore have the same
// generation.
type nodeTable struct {
	m      *Mount
	mu     sync.RWMutex
	nodes  map[uint64]*node
	byFH   map[string]*node
	parked lru.List // *node forgotten by the kernel, most recent first
	lastID uint64   // the last number assigned to a node

	// specials holds the names under which the kernel knows special files, and
	// whether by the number with substituteBit.
	specials map[place]bool

	unclaimed unclaimedErrors

	capacity   int // maximum number of nodes known to the kernel
	pruning    bool
	lastPruned time.Time // when pruning last ended
}

// A place is a name in a directory.
type place struct {
	dir  *node
	name string
}

// A namedNode is the node at a place, seen there while the directory was in state
// seen.
type namedNode struct {
	*node
	seen  delegation.Stamp
	grant uint64 // the directory's grant, if still held; 0: none
}

// A sighting describes how a name was seen in a directory: while the directory was
// in state stamp, by a call that began at tick began, and that itself created the
// name if made is set.
type sighting struct {
	stamp delegation.Stamp
	began uint64
	made  bool
}

func newTable(m *Mount, root nfs3.FH) *nodeTable {
	t := &nodeTable{m: m, nodes: make(map[uint64]*node), byFH: make(map[string]*node), capacity: maxKnown}
	t.addLocked(fuse.FUSE_ROOT_ID, root).lookups = 1
	return t
}

// addLocked creates a node.
func (t *nodeTable) addLocked(id uint64, fh nfs3.FH) *node {
	n := &node{m: t.m, id: id, fh: fh}
	t.unclaimed.claimErrors(n)
	t.nodes[id], t.byFH[unsafe.String(unsafe.SliceData(fh), len(fh))], t.lastID = n, n, id // fh is never changed
	return n
}

// findNode returns the node that the kernel knows by id, with or without substituteBit,
// or nil.
func (t *nodeTable) findNode(id uint64) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := t.nodes[id&^substituteBit]
	if n != nil && !n.used.Load() {
		n.used.Store(true)
	}
	return n
}

// findHandle returns a file handle's node, or nil.
func (t *nodeTable) findHandle(fh nfs3.FH) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byFH[string(fh)]
}

// referNode finds or creates a file handle's node, counts one more kernel
// reference, and records the node's name in dir as seen. It returns dir's grant
// under which the name was seen, or 0. referNode retains fh.
func (t *nodeTable) referNode(fh nfs3.FH, dir *node, name string, s sighting) (n *node, grant uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n = t.byFH[string(fh)]; n == nil {
		n = t.addLocked(t.lastID+1, fh)
	}
	t.countReferenceLocked(n)
	t.pruneIfFullLocked()
	grant = dir.grantForName(s)
	t.setNameLocked(dir, name, namedNode{n, s.stamp, grant})
	return n, grant
}

// countReferenceLocked counts one more kernel reference to n.
func (t *nodeTable) countReferenceLocked(n *node) {
	n.lookups++
	if n.parked != nil {
		t.parked.Remove(n.parked)
		n.parked = nil
	}
}

// referCached returns the node seen at a name under grant, or, if grant is 0, in
// dir's state seen, and counts one more kernel reference. It returns nil if there
// is none.
func (t *nodeTable) referCached(dir *node, name string, seen delegation.Stamp, grant uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := dir.directoryState().names[name]
	if n.node == nil || n.grant != grant && grant != 0 || n.seen != seen && grant == 0 {
		return nil
	}
	t.countReferenceLocked(n.node)
	return n.node
}

// setNameLocked records the node at a name.
func (t *nodeTable) setNameLocked(dir *node, name string, n namedNode) {
	d := dir.directoryState()
	if d.names[name].node != n.node {
		t.removeNameLocked(dir, name)
		n.places = append(n.places, place{dir, name})
	}
	if d.names == nil {
		d.names = make(map[string]namedNode)
	}
	d.names[name] = n
}

// removeNameLocked forgets the node at a name.
func (t *nodeTable) removeNameLocked(dir *node, name string) {
	d := dir.directoryState()
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

// removeAllNamesLocked forgets n's names.
func (t *nodeTable) removeAllNamesLocked(n *node) {
	for len(n.places) > 0 {
		t.removeNameLocked(n.places[0].dir, n.places[0].name)
	}
}

// findChild returns the node that the kernel believes to be at a name, or nil.
func (t *nodeTable) findChild(dir *node, name string) *node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return dir.directoryState().names[name].node
}

// removeName records that nothing is at a name any more.
func (t *nodeTable) removeName(dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeNameLocked(dir, name)
}

// invalidateName records that the node at a name may not be there any more.
func (t *nodeTable) invalidateName(dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := dir.directoryState()
	if n := d.names[name]; n.node != nil {
		d.names[name] = namedNode{n.node, noStamp, 0}
	}
}

// listNames returns the names in a directory that the kernel may know.
func (t *nodeTable) listNames(dir *node) (list []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for name := range dir.directoryState().names {
		list = append(list, name)
	}
	return list
}

// removeAllNames forgets n's names.
func (t *nodeTable) removeAllNames(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeAllNamesLocked(n)
}

// moveName records that a call that began at tick began has renamed a name.
func (t *nodeTable) moveName(from *node, name string, to *node, newName string, began uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := from.directoryState().names[name].node
	t.removeNameLocked(from, name)
	t.removeNameLocked(to, newName)
	if n != nil {
		t.setNameLocked(to, newName, namedNode{n, noStamp, to.grantForName(sighting{began: began, made: true})})
	}
}

// dropReferences drops count kernel references to a node.
func (t *nodeTable) dropReferences(id, count uint64) {
	id &^= substituteBit
	t.mu.Lock()
	var dropped *node
	if n := t.nodes[id]; n != nil && id != fuse.FUSE_ROOT_ID {
		n.lookups -= min(count, n.lookups)
		dropped = t.releaseNodeLocked(n)
	}
	t.mu.Unlock()
	t.endDelegation(dropped)
}

// isKnownToKernel reports whether the kernel knows n, or will know n from a reply
// in flight.
func (t *nodeTable) isKnownToKernel(n *node) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.lookups > 0 || n.opens > 0
}

// releaseNodeLocked parks a node that is no longer in use. It drops the node
// instead if no name leads to it any more, or if its state is uncertain. It
// returns the dropped node, or nil.
func (t *nodeTable) releaseNodeLocked(n *node) (dropped *node) {
	switch {
	case n.lookups > 0 || n.opens > 0 || n.parked != nil:
		return nil
	case len(n.places) == 0 || n.uncertain.Load():
		t.dropNodeLocked(n)
		return n
	}
	n.forgetPages()
	n.parked = t.parked.PushFront(n)
	if t.parked.Len() <= maxParked {
		return nil
	}
	dropped = t.parked.Remove(t.parked.Back()).(*node)
	dropped.parked = nil
	t.dropNodeLocked(dropped)
	return dropped
}

// dropNodeLocked drops a node.
func (t *nodeTable) dropNodeLocked(n *node) {
	t.removeAllNamesLocked(n)
	if d := n.directory.Load(); d != nil {
		for name := range d.names {
			t.removeNameLocked(n, name)
		}
	}
	delete(t.nodes, n.id)
	delete(t.byFH, string(n.fh))
	if dropped := t.unclaimed.keepErrors(n); len(dropped) > 0 {
		t.m.notifications.Go(func() { t.m.logLostData(dropped) })
	}
}

// endDelegation ends a dropped node's delegation. The node may be nil.
func (t *nodeTable) endDelegation(dropped *node) {
	if dropped != nil {
		dropped.forgetDelegation()
	}
}

// addOpen counts an open file of n.
func (t *nodeTable) addOpen(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n.opens++
}

// isOpen reports whether n has open files.
func (t *nodeTable) isOpen(n *node) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return n.opens > 0
}

// removeOpen removes one of n's open files, and reports whether it was the last.
func (t *nodeTable) removeOpen(n *node) bool {
	t.mu.Lock()
	n.opens--
	last, dropped := n.opens == 0, t.releaseNodeLocked(n)
	t.mu.Unlock()
	t.endDelegation(dropped)
	return last
}

// listNodes returns every node.
func (t *nodeTable) listNodes() []*node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := make([]*node, 0, len(t.nodes))
	for _, n := range t.nodes {
		list = append(list, n)
	}
	return list
}
