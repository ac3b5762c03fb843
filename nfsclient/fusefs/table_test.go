package fusefs

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient/nlmclient"
)

// TestTable checks the count of the kernel's references to a node.
func TestTable(t *testing.T) {
	tab := newTable(new(Mount), nfs3.FH("root"))
	root := tab.findNode(fuse.FUSE_ROOT_ID)
	seen := delegation.Stamp{CTime: 1}
	n, _ := tab.referNode(nfs3.FH("n"), root, "a", sighting{stamp: seen})
	again, _ := tab.referNode(nfs3.FH("n"), root, "b", sighting{stamp: seen})
	assert.Same(t, n, again, "another name of the same")
	assert.NotEqual(t, root.id, n.id)
	assert.Same(t, n, tab.findNode(n.id))
	assert.Same(t, n, tab.findHandle(nfs3.FH("n")))
	assert.Same(t, n, tab.findChild(root, "a"))
	tab.dropReferences(n.id, 1)
	assert.True(t, tab.isKnownToKernel(n))
	tab.dropReferences(n.id, 1)
	assert.False(t, tab.isKnownToKernel(n))
	again, _ = tab.referNode(nfs3.FH("n"), root, "a", sighting{stamp: seen})
	assert.Same(t, n, again, "it is kept")
	tab.removeName(root, "a")
	tab.removeName(root, "b")
	tab.dropReferences(n.id, 1)
	assert.Nil(t, tab.findNode(n.id), "no name leads to it")
	assert.Nil(t, tab.findHandle(nfs3.FH("n")))
	again, _ = tab.referNode(nfs3.FH("n"), root, "a", sighting{stamp: seen})
	assert.NotEqual(t, n.id, again.id, "a number is never reused")
	tab.removeName(root, "a")
	tab.dropReferences(again.id, 99)
	tab.dropReferences(again.id, 1)
	tab.dropReferences(12345, 1)
	tab.dropReferences(root.id, 5)
	assert.Same(t, root, tab.findNode(root.id))
	assert.Len(t, tab.nodes, 1)
	assert.Empty(t, tab.listNames(root))
}

// TestTableParked checks that forgotten nodes are kept, but not forever.
func TestTableParked(t *testing.T) {
	tab := newTable(new(Mount), nfs3.FH("root"))
	root := tab.findNode(fuse.FUSE_ROOT_ID)
	dir, _ := tab.referNode(nfs3.FH("d"), root, "d", sighting{stamp: noStamp})
	file, _ := tab.referNode(nfs3.FH("f"), dir, "f", sighting{stamp: noStamp})
	file.pages = &cachedPages{tick: 1}
	tab.dropReferences(file.id, 1)
	tab.dropReferences(dir.id, 1)
	assert.Nil(t, file.pages, "the kernel has no inode")
	assert.Same(t, file, tab.referCached(dir, "f", noStamp, 0))
	assert.True(t, tab.isKnownToKernel(file))
	for i := range maxParked {
		n, _ := tab.referNode(fmt.Append(nil, i), root, fmt.Sprint(i), sighting{stamp: noStamp})
		tab.dropReferences(n.id, 1)
	}
	assert.Nil(t, tab.findNode(dir.id), "the first forgotten node")
	assert.Equal(t, maxParked, tab.parked.Len())
	assert.Len(t, tab.listNames(root), maxParked)
	assert.Empty(t, file.places, "its directory is gone")
	tab.dropReferences(file.id, 1)
	assert.Nil(t, tab.findNode(file.id))
	assert.Len(t, tab.nodes, 1+maxParked)
	assert.Len(t, tab.byFH, 1+maxParked)
}

// TestTableOpen checks that open nodes are kept.
func TestTableOpen(t *testing.T) {
	tab := newTable(new(Mount), nfs3.FH("root"))
	root := tab.findNode(fuse.FUSE_ROOT_ID)
	n, _ := tab.referNode(nfs3.FH("n"), root, "n", sighting{stamp: noStamp})
	tab.addOpen(n)
	tab.addOpen(n)
	tab.removeName(root, "n")
	tab.dropReferences(n.id, 1)
	assert.Same(t, n, tab.findHandle(nfs3.FH("n")))
	assert.False(t, tab.removeOpen(n))
	assert.True(t, tab.isOpen(n))
	assert.True(t, tab.removeOpen(n))
	assert.Nil(t, tab.findHandle(nfs3.FH("n")))
}

// TestTableNames checks the names of nodes.
func TestTableNames(t *testing.T) {
	tab := newTable(new(Mount), nfs3.FH("root"))
	root := tab.findNode(fuse.FUSE_ROOT_ID)
	seen, later := delegation.Stamp{CTime: 1}, delegation.Stamp{CTime: 2}
	a, _ := tab.referNode(nfs3.FH("a"), root, "a", sighting{stamp: seen})
	b, _ := tab.referNode(nfs3.FH("b"), root, "b", sighting{stamp: seen})
	assert.Same(t, a, tab.referCached(root, "a", seen, 0))
	assert.Nil(t, tab.referCached(root, "a", later, 0), "the directory has changed")
	assert.Nil(t, tab.referCached(root, "c", seen, 0))
	tab.moveName(root, "a", root, "b", 1)
	assert.Nil(t, tab.findChild(root, "a"))
	assert.Same(t, a, tab.findChild(root, "b"))
	assert.Nil(t, tab.referCached(root, "b", seen, 0))
	tab.referNode(nfs3.FH("b"), root, "b", sighting{stamp: later})
	assert.Same(t, b, tab.referCached(root, "b", later, 0))
	assert.Equal(t, []string{"b"}, tab.listNames(root))
	tab.removeName(root, "b")
	tab.removeName(root, "b")
	tab.referNode(nfs3.FH("b"), root, "x", sighting{stamp: later})
	tab.referNode(nfs3.FH("b"), root, "y", sighting{stamp: later})
	tab.removeAllNames(b)
	assert.Empty(t, tab.listNames(root))
	tab.moveName(root, "none", root, "x", 2)
	assert.Empty(t, tab.listNames(root))
}

// TestNodeSize bounds the size of a node, because every file that the kernel
// knows has a node.
func TestNodeSize(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(node{}), uintptr(416))
}

// TestOpenedAs checks that close waits for a file that may have been written.
func TestOpenedAs(t *testing.T) {
	m := new(Mount)
	assert.EqualValues(t, fuse.FOPEN_NOFLUSH, m.openReplyFlags(unix.O_RDONLY))
	assert.EqualValues(t, fuse.FOPEN_NOFLUSH, m.openReplyFlags(fmodeExec))
	assert.Zero(t, m.openReplyFlags(unix.O_WRONLY))
	assert.Zero(t, m.openReplyFlags(unix.O_RDWR|unix.O_APPEND))
	assert.Zero(t, m.openReplyFlags(unix.O_RDWR|unix.O_DIRECT)&fuse.FOPEN_NOFLUSH)
	assert.NotZero(t, m.openReplyFlags(unix.O_DIRECT)&fuse.FOPEN_DIRECT_IO)
	m.cfg.Locks = new(nlmclient.Client)
	assert.Zero(t, m.openReplyFlags(unix.O_RDONLY), "close unlocks")
	m.cfg.LocalPOSIX = true
	assert.EqualValues(t, fuse.FOPEN_NOFLUSH, m.openReplyFlags(unix.O_RDONLY))
}
