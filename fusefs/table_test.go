package fusefs

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/lockclient"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// TestTable checks the count of the kernel's references to a node.
func TestTable(t *testing.T) {
	tab := newTable(new(Mount), nfs3.FH("root"))
	root := tab.node(fuse.FUSE_ROOT_ID)
	seen := nfs3.Time{Sec: 1}
	n, _ := tab.refer(nfs3.FH("n"), root, "a", sight{mtime: seen})
	again, _ := tab.refer(nfs3.FH("n"), root, "b", sight{mtime: seen})
	assert.Same(t, n, again, "another name of the same")
	assert.NotEqual(t, root.id, n.id)
	assert.Same(t, n, tab.node(n.id))
	assert.Same(t, n, tab.known(nfs3.FH("n")))
	assert.Same(t, n, tab.child(root, "a"))
	tab.forget(n.id, 1)
	assert.True(t, tab.knows(n))
	tab.forget(n.id, 1)
	assert.False(t, tab.knows(n))
	again, _ = tab.refer(nfs3.FH("n"), root, "a", sight{mtime: seen})
	assert.Same(t, n, again, "it is kept")
	tab.unname(root, "a")
	tab.unname(root, "b")
	tab.forget(n.id, 1)
	assert.Nil(t, tab.node(n.id), "no name leads to it")
	assert.Nil(t, tab.known(nfs3.FH("n")))
	again, _ = tab.refer(nfs3.FH("n"), root, "a", sight{mtime: seen})
	assert.NotEqual(t, n.id, again.id, "a number is never reused")
	tab.unname(root, "a")
	tab.forget(again.id, 99)
	tab.forget(again.id, 1)
	tab.forget(12345, 1)
	tab.forget(root.id, 5)
	assert.Same(t, root, tab.node(root.id))
	assert.Len(t, tab.nodes, 1)
	assert.Empty(t, tab.namesIn(root))
}

// TestTableParked checks that forgotten nodes are kept, but not for ever.
func TestTableParked(t *testing.T) {
	tab := newTable(new(Mount), nfs3.FH("root"))
	root := tab.node(fuse.FUSE_ROOT_ID)
	dir, _ := tab.refer(nfs3.FH("d"), root, "d", sight{mtime: noTime})
	file, _ := tab.refer(nfs3.FH("f"), dir, "f", sight{mtime: noTime})
	file.pages = &pages{tick: 1}
	tab.forget(file.id, 1)
	tab.forget(dir.id, 1)
	assert.Nil(t, file.pages, "the kernel has no inode")
	assert.Same(t, file, tab.lookupCached(dir, "f", noTime, 0))
	assert.True(t, tab.knows(file))
	for i := range maxParked {
		n, _ := tab.refer(fmt.Append(nil, i), root, fmt.Sprint(i), sight{mtime: noTime})
		tab.forget(n.id, 1)
	}
	assert.Nil(t, tab.node(dir.id), "the first forgotten node")
	assert.Equal(t, maxParked, tab.parked.Len())
	assert.Len(t, tab.namesIn(root), maxParked)
	assert.Empty(t, file.places, "its directory is gone")
	tab.forget(file.id, 1)
	assert.Nil(t, tab.node(file.id))
	assert.Len(t, tab.nodes, 1+maxParked)
	assert.Len(t, tab.byFH, 1+maxParked)
}

// TestTableOpen checks that open nodes are kept.
func TestTableOpen(t *testing.T) {
	tab := newTable(new(Mount), nfs3.FH("root"))
	root := tab.node(fuse.FUSE_ROOT_ID)
	n, _ := tab.refer(nfs3.FH("n"), root, "n", sight{mtime: noTime})
	tab.open(n)
	tab.open(n)
	tab.unname(root, "n")
	tab.forget(n.id, 1)
	assert.Same(t, n, tab.known(nfs3.FH("n")))
	assert.False(t, tab.close(n))
	assert.True(t, tab.isOpen(n))
	assert.True(t, tab.close(n))
	assert.Nil(t, tab.known(nfs3.FH("n")))
}

// TestTableNames checks the names of nodes.
func TestTableNames(t *testing.T) {
	tab := newTable(new(Mount), nfs3.FH("root"))
	root := tab.node(fuse.FUSE_ROOT_ID)
	seen, later := nfs3.Time{Sec: 1}, nfs3.Time{Sec: 2}
	a, _ := tab.refer(nfs3.FH("a"), root, "a", sight{mtime: seen})
	b, _ := tab.refer(nfs3.FH("b"), root, "b", sight{mtime: seen})
	assert.Same(t, a, tab.lookupCached(root, "a", seen, 0))
	assert.Nil(t, tab.lookupCached(root, "a", later, 0), "the directory has changed")
	assert.Nil(t, tab.lookupCached(root, "c", seen, 0))
	tab.rename(root, "a", root, "b", 1)
	assert.Nil(t, tab.child(root, "a"))
	assert.Same(t, a, tab.child(root, "b"))
	assert.Nil(t, tab.lookupCached(root, "b", seen, 0))
	tab.refer(nfs3.FH("b"), root, "b", sight{mtime: later})
	assert.Same(t, b, tab.lookupCached(root, "b", later, 0))
	assert.Equal(t, []string{"b"}, tab.namesIn(root))
	tab.unname(root, "b")
	tab.unname(root, "b")
	tab.refer(nfs3.FH("b"), root, "x", sight{mtime: later})
	tab.refer(nfs3.FH("b"), root, "y", sight{mtime: later})
	tab.lose(b)
	assert.Empty(t, tab.namesIn(root))
	tab.rename(root, "none", root, "x", 2)
	assert.Empty(t, tab.namesIn(root))
}

// TestNodeSize bounds the size of a node, because every file that the kernel
// knows has a node.
func TestNodeSize(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(node{}), uintptr(416))
}

// TestOpenedAs checks that close waits for a file that may have been written.
func TestOpenedAs(t *testing.T) {
	m := new(Mount)
	assert.EqualValues(t, fuse.FOPEN_NOFLUSH, m.openedAs(unix.O_RDONLY))
	assert.EqualValues(t, fuse.FOPEN_NOFLUSH, m.openedAs(fmodeExec))
	assert.Zero(t, m.openedAs(unix.O_WRONLY))
	assert.Zero(t, m.openedAs(unix.O_RDWR|unix.O_APPEND))
	assert.Zero(t, m.openedAs(unix.O_RDWR|unix.O_DIRECT)&fuse.FOPEN_NOFLUSH)
	assert.NotZero(t, m.openedAs(unix.O_DIRECT)&fuse.FOPEN_DIRECT_IO)
	m.cfg.Locks = new(lockclient.Client)
	assert.Zero(t, m.openedAs(unix.O_RDONLY), "close unlocks")
	m.cfg.LocalPOSIX = true
	assert.EqualValues(t, fuse.FOPEN_NOFLUSH, m.openedAs(unix.O_RDONLY))
}
