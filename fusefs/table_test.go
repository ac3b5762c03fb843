package fusefs

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// TestTable counts how often the kernel knows a node.
func TestTable(t *testing.T) {
	tab := newTable(nfs3.FH("root"))
	root := tab.node(fuse.FUSE_ROOT_ID)
	seen := nfs3.Time{Sec: 1}
	n := tab.refer(nfs3.FH("n"), root, "a", seen)
	assert.Same(t, n, tab.refer(nfs3.FH("n"), root, "b", seen), "another name of the same")
	assert.NotEqual(t, root.id, n.id)
	assert.Same(t, n, tab.node(n.id))
	assert.Same(t, n, tab.known(nfs3.FH("n")))
	assert.Same(t, n, tab.child(root, "a"))
	tab.forget(n.id, 1)
	assert.Same(t, n, tab.node(n.id))
	tab.forget(n.id, 1)
	assert.Nil(t, tab.node(n.id))
	assert.Nil(t, tab.known(nfs3.FH("n")))
	assert.Nil(t, tab.child(root, "a"))
	assert.Nil(t, tab.child(root, "b"))
	again := tab.refer(nfs3.FH("n"), root, "a", seen)
	assert.NotEqual(t, n.id, again.id, "a number has one meaning for ever")
	tab.forget(again.id, 99)
	tab.forget(again.id, 1)
	tab.forget(12345, 1)
	tab.forget(root.id, 5)
	assert.Same(t, root, tab.node(root.id))
	assert.Len(t, tab.nodes, 1)
	assert.Empty(t, tab.names)
}

// TestTableOpen keeps what is open.
func TestTableOpen(t *testing.T) {
	tab := newTable(nfs3.FH("root"))
	root := tab.node(fuse.FUSE_ROOT_ID)
	n := tab.refer(nfs3.FH("n"), root, "a", noTime)
	tab.open(n)
	tab.open(n)
	tab.forget(n.id, 1)
	assert.Same(t, n, tab.known(nfs3.FH("n")))
	assert.False(t, tab.close(n))
	assert.True(t, tab.isOpen(n))
	assert.True(t, tab.close(n))
	assert.Nil(t, tab.known(nfs3.FH("n")))
}

// TestTableNames follows names.
func TestTableNames(t *testing.T) {
	tab := newTable(nfs3.FH("root"))
	root := tab.node(fuse.FUSE_ROOT_ID)
	seen, later := nfs3.Time{Sec: 1}, nfs3.Time{Sec: 2}
	a := tab.refer(nfs3.FH("a"), root, "a", seen)
	b := tab.refer(nfs3.FH("b"), root, "b", seen)
	assert.Same(t, a, tab.recall(root, "a", seen))
	assert.Nil(t, tab.recall(root, "a", later), "the directory has changed")
	assert.Nil(t, tab.recall(root, "c", seen))
	tab.rename(root, "a", root, "b")
	assert.Nil(t, tab.child(root, "a"))
	assert.Same(t, a, tab.child(root, "b"))
	assert.Nil(t, tab.recall(root, "b", seen))
	tab.refer(nfs3.FH("b"), root, "b", later)
	assert.Same(t, b, tab.recall(root, "b", later))
	assert.Equal(t, []string{"b"}, tab.namesIn(root))
	tab.unname(root, "b")
	tab.unname(root, "b")
	tab.refer(nfs3.FH("b"), root, "x", later)
	tab.refer(nfs3.FH("b"), root, "y", later)
	tab.lose(b)
	assert.Empty(t, tab.names)
	tab.rename(root, "none", root, "x")
	assert.Empty(t, tab.names)
}
