package billy

import (
	"container/list"
	"sync"
	"syscall"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A table holds the objects that clients have seen, as a tree of their names. A
// node stays while there are nodes below it. Of the others, the least recently
// used makes room.
type table struct {
	handles Handles
	max     int

	mu       sync.Mutex
	root     *node
	byHandle map[vfs.Handle]*node
	byFileID map[uint64]*node
	used     list.List // of *node, the most recently used in front
	nextID   uint64
}

// get returns the node of a handle, or nil.
func (t *table) get(h vfs.Handle) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byHandle[h]
	t.use(n)
	return n
}

// use makes n the most recently used node. t.mu is held, as in all methods
// below that do not take it.
func (t *table) use(n *node) {
	if n != nil && n.used != nil {
		t.used.MoveToFront(n.used)
	}
}

// where returns the path of a node, or false if the node is gone.
func (t *table) where(n *node) ([]string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.path(), !n.gone
}

// parent returns the directory that contains a node. The root contains itself.
func (t *table) parent(n *node) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(n.places) == 0 {
		return n
	}
	return n.places[0].dir
}

// isBelow reports whether n is d, or lies below d.
func (t *table) isBelow(n, d *node) bool {
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

// same returns the node with an inode number, and its path.
func (t *table) same(fileID uint64) (*node, []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byFileID[fileID]
	if n == nil {
		return nil, nil
	}
	return n, n.path()
}

// child returns the node for name in dir, whose object has that type and inode
// number. It returns ESTALE if dir has been forgotten meanwhile.
func (t *table) child(dir *node, name string, typ vfs.Type, fileID uint64) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if dir.gone {
		return nil, syscall.ESTALE
	}
	if n := dir.kids[name]; n != nil {
		if n.isA(typ, fileID) {
			t.use(n)
			return n, nil
		}
		t.leave(n, place{dir, name}) // another object took its place
	}
	if old := t.byFileID[fileID]; fileID != 0 && old != nil {
		t.drop(old) // its number was reused, or another process moved it
	}
	h, err := t.newHandle(append(dir.path(), name))
	if err != nil {
		return nil, err
	}
	if old := t.byHandle[h]; old != nil {
		t.drop(old) // Handles is based on paths, and this is the path now
	}
	n := t.add(h, typ, fileID)
	n.used = t.used.PushFront(n)
	t.enter(n, place{dir, name})
	t.evict(n)
	return n, nil
}

// newHandle gets the handle of a path from Handles.
func (t *table) newHandle(path []string) (vfs.Handle, error) {
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

// add adds a node without a name to the table.
func (t *table) add(h vfs.Handle, typ vfs.Type, fileID uint64) *node {
	t.nextID++
	n := &node{handle: h, id: t.nextID, typ: typ, fileID: fileID}
	t.byHandle[h] = n
	if fileID != 0 {
		t.byFileID[fileID] = n
	}
	return n
}

// drop forgets a node and all nodes below it: their handles are ESTALE.
func (t *table) drop(n *node) {
	if n.gone || n == t.root {
		return
	}
	for name, kid := range n.kids {
		t.leave(kid, place{n, name})
	}
	for len(n.places) > 0 {
		t.exit(n, n.places[0])
	}
	t.forget(n)
	t.handles.Forget(n.handle.AppendTo(nil))
}

// forget removes a node from the table.
func (t *table) forget(n *node) {
	n.gone = true
	delete(t.byHandle, n.handle)
	if t.byFileID[n.fileID] == n {
		delete(t.byFileID, n.fileID)
	}
	t.used.Remove(n.used)
}

// evict makes room in an overfull table, but keeps n.
func (t *table) evict(n *node) {
	for tries := t.used.Len(); len(t.byHandle) > t.max && tries > 0; tries-- {
		old := t.used.Back().Value.(*node)
		if old == n || len(old.kids) > 0 {
			t.used.MoveToFront(old.used)
			continue
		}
		for len(old.places) > 0 {
			t.exit(old, old.places[0])
		}
		t.forget(old)
	}
}
