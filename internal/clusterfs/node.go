package clusterfs

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A node is an object that some kernel refers to. Its descriptor, opened with O_PATH,
// keeps the inode number from being reused.
type node struct {
	id   uint64
	key  inodeKey
	fd   int
	refs uint64 // guarded by the table's mutex
}

type inodeKey struct{ dev, ino uint64 }

// proc is the path by which system calls that accept no O_PATH descriptor reach the
// object.
func (n *node) proc() string { return fmt.Sprintf("/proc/self/fd/%d", n.fd) }

// A nodeTable has the nodes of all sessions. IDs are not reused.
type nodeTable struct {
	mu    sync.Mutex
	root  string
	last  uint64
	byID  map[uint64]*node
	byKey map[inodeKey]*node
}

func (t *nodeTable) init(root string) error {
	t.root, t.byID, t.byKey = root, map[uint64]*node{}, map[inodeKey]*node{}
	_, err := t.open(nil, unix.AT_FDCWD, root)
	return err
}

// open opens a name as a node, and counts a reference of s.
func (t *nodeTable) open(s *session, dir int, name string) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	key := inodeKey{st.Dev, st.Ino}
	n := t.byKey[key]
	if n != nil {
		unix.Close(fd)
	} else {
		t.last++ // the root's is 1, as FUSE demands
		n = &node{id: t.last, key: key, fd: fd}
		t.byID[n.id], t.byKey[key] = n, n
	}
	n.refs++
	if s != nil {
		s.lookups[n.id]++
	}
	return n, nil
}

func (t *nodeTable) get(id uint64) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.byID[id]; n != nil {
		return n, nil
	}
	return nil, unix.ESTALE
}

func (t *nodeTable) forget(s *session, id, refs uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(s, id, refs)
}

func (t *nodeTable) forgetLocked(s *session, id, refs uint64) {
	n := t.byID[id]
	if n == nil || id == fuse.FUSE_ROOT_ID {
		return
	}
	refs = min(refs, s.lookups[id])
	if s.lookups[id] -= refs; s.lookups[id] == 0 {
		delete(s.lookups, id)
	}
	if n.refs -= refs; n.refs == 0 {
		delete(t.byID, id)
		delete(t.byKey, n.key)
		unix.Close(n.fd)
	}
}

func (t *nodeTable) forgetAll(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, refs := range s.lookups {
		t.forgetLocked(s, id, refs)
	}
}

// path returns a node's path below the root, for records.
func (t *nodeTable) path(n *node) string {
	path, err := os.Readlink(n.proc())
	if err != nil {
		return "?"
	}
	if path = strings.TrimPrefix(path, t.root); path == "" {
		return "/"
	}
	return path
}
