package billy

import (
	"container/list"
	"sync"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A nodeTable holds the objects that clients have seen, as a name tree. A node stays while there
// are nodes below it. Otherwise the least recently used one is evicted.
type nodeTable struct {
	handles Handles
	max     int

	mu       sync.Mutex
	root     *node
	byHandle map[vfs.Handle]*node
	byFileID map[uint64]*node
	used     list.List // of *node, the most recently used in front
	nextID   uint64
}

// getNode returns a handle's node, or nil.
func (t *nodeTable) getNode(h vfs.Handle) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byHandle[h]
	t.markUsed(n)
	return n
}

// markUsed makes n the most recently used node. t.mu is held, as in all methods below that do not
// lock it.
func (t *nodeTable) markUsed(n *node) {
	if n != nil && n.used != nil {
		t.used.MoveToFront(n.used)
	}
}

// pathOf returns a node's path, or false if the node is gone.
func (t *nodeTable) pathOf(n *node) ([]string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.pathNames(), !n.gone
}

// parentOf returns the directory that contains a node. The root contains itself.
func (t *nodeTable) parentOf(n *node) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(n.places) == 0 {
		return n
	}
	return n.places[0].dir
}

// isBelow reports whether n is d, or lies below d.
func (t *nodeTable) isBelow(n, d *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n != d {
		if len(n.places) == 0 {
			return false
		}
		n = n.places[0].dir
	}
	return true
}

// nodeByFileID returns the node with an inode number, and its path.
func (t *nodeTable) nodeByFileID(fileID uint64) (*node, []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byFileID[fileID]
	if n == nil {
		return nil, nil
	}
	return n, n.pathNames()
}

// childNode returns the node for name in dir, whose object has that type and inode number. It
// returns ESTALE if dir has been evicted in the meantime.
func (t *nodeTable) childNode(dir *node, name string, typ vfs.Type, fileID uint64) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if dir.gone {
		return nil, syscall.ESTALE
	}
	if n := dir.kids[name]; n != nil {
		if n.isA(typ, fileID) {
			t.markUsed(n)
			return n, nil
		}
		t.dropPlace(n, place{dir, name}) // another object took its place
	}
	if old := t.byFileID[fileID]; fileID != 0 && old != nil {
		t.dropNode(old) // its number was reused, or another process moved it
	}
	h, err := t.newHandle(append(dir.pathNames(), name))
	if err != nil {
		return nil, err
	}
	if old := t.byHandle[h]; old != nil {
		t.dropNode(old) // Handles is based on paths, and this is the path now
	}
	n := t.addNode(h, typ, fileID)
	n.used = t.used.PushFront(n)
	t.addPlace(n, place{dir, name})
	t.evictNodes(n)
	return n, nil
}

// newHandle gets a path's handle from Handles.
func (t *nodeTable) newHandle(path []string) (vfs.Handle, error) {
	b, err := t.handles.Handle(path)
	if err != nil {
		return vfs.Handle{}, err
	}
	h, ok := vfs.NewHandle(b)
	if !ok || len(b) == 0 {
		return h, handleError(len(b))
	}
	return h, nil
}

// addNode adds a node without a name to the table.
func (t *nodeTable) addNode(h vfs.Handle, typ vfs.Type, fileID uint64) *node {
	t.nextID++
	n := &node{handle: h, id: t.nextID, typ: typ, fileID: fileID}
	t.byHandle[h] = n
	if fileID != 0 {
		t.byFileID[fileID] = n
	}
	return n
}

// dropNode forgets a node and all nodes below it: their handles are ESTALE.
func (t *nodeTable) dropNode(n *node) {
	if n.gone || n == t.root {
		return
	}
	for name, kid := range n.kids {
		t.dropPlace(kid, place{n, name})
	}
	for len(n.places) > 0 {
		t.removePlace(n, n.places[0])
	}
	t.forgetNode(n)
	t.handles.Forget(n.handle.AppendTo(nil))
}

// forgetNode removes a node from the table.
func (t *nodeTable) forgetNode(n *node) {
	n.gone = true
	delete(t.byHandle, n.handle)
	if t.byFileID[n.fileID] == n {
		delete(t.byFileID, n.fileID)
	}
	t.used.Remove(n.used)
}

// evictNodes evicts nodes from an overfull table, but keeps n.
func (t *nodeTable) evictNodes(n *node) {
	for tries := t.used.Len(); len(t.byHandle) > t.max && tries > 0; tries-- {
		old := t.used.Back().Value.(*node)
		if old == n || len(old.kids) > 0 {
			t.used.MoveToFront(old.used)
			continue
		}
		for len(old.places) > 0 {
			t.removePlace(old, old.places[0])
		}
		t.forgetNode(old)
	}
}
