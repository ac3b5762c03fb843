package fusefs

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// known returns how many nodes the kernel knows, and how many exist.
func (m *mounted) known() (known, all int) {
	m.table.mu.RLock()
	defer m.table.mu.RUnlock()
	return len(m.table.nodes) - m.table.parked.Len(), len(m.table.nodes)
}

// TestPrune lists and stats more files than the kernel may know. It checks that
// the kernel forgets some, and that everything still works.
func TestPrune(t *testing.T) {
	s, m := newMount(t)
	const files, room = 3000, 256
	m.table.room = room
	require.NoError(t, os.Mkdir(s.file("d"), 0o755))
	for i := range files {
		put(t, s.file(fmt.Sprint("d/", i)), nil)
	}
	put(t, s.file("open"), []byte("open"))
	f := open(t, m.file("open"), os.O_RDONLY)
	kept := m.table.child(m.table.node(1), "open")
	d, err := os.Open(m.file("d"))
	require.NoError(t, err)
	defer d.Close()
	names, err := d.Readdirnames(-1)
	require.NoError(t, err)
	assert.Len(t, names, files)
	known, _ := m.known()
	assert.LessOrEqual(t, known, room+1, "a listing may have read one entry ahead")
	for i := range files {
		assert.FileExists(t, m.file(fmt.Sprint("d/", i)))
	}
	next := 0
	assert.Eventually(t, func() bool {
		lstat(t, m.file(fmt.Sprint("d/", next)))
		next = (next + 37) % files
		known, _ := m.known()
		return known <= room
	}, 10*time.Second, prunePoll)
	assert.True(t, m.table.knows(kept))
	got := make([]byte, 4)
	_, err = f.ReadAt(got, 0)
	require.NoError(t, err)
	assert.Equal(t, "open", string(got))
}

// TestPruneNames checks that a kernel without the note for pruning forgets
// files.
func TestPruneNames(t *testing.T) {
	s, m := newMount(t)
	put(t, s.file("a"), nil)
	require.NoError(t, os.Mkdir(s.file("d"), 0o755))
	lstat(t, m.file("a"))
	lstat(t, m.file("d"))
	root := m.table.node(1)
	a, d := m.table.child(root, "a"), m.table.child(root, "d")
	m.dropNames(a)
	m.dropNames(d)
	assert.Eventually(t, func() bool { return !m.table.knows(a) }, 10*time.Second, time.Millisecond)
	assert.True(t, m.table.knows(d), "it may have a mount on it")
}

// TestPruneOld checks that pruning skips a used node once.
func TestPruneOld(t *testing.T) {
	tab := newTable(new(Mount), nfs3.FH("root"))
	root := tab.node(1)
	var all []*node
	for i := range 4 {
		n, _ := tab.refer(nfs3.FH(fmt.Sprint(i)), root, fmt.Sprint(i), sight{mtime: noTime})
		all = append(all, n)
	}
	tab.node(all[0].id)
	tab.open(all[1])
	tab.forget(all[2].id, 1)
	tab.node(all[0].id)
	assert.True(t, slices.Equal([]*node{all[3]}, tab.oldLocked(9)))
	assert.Len(t, tab.oldLocked(9), 2)
}

// TestPruneShut checks that the kernel forgets a node that it knows by the
// number with shutBit.
func TestPruneShut(t *testing.T) {
	s, m := newMount(t)
	special(t, s)
	for _, prune := range []func(n *node){
		func(n *node) { assert.True(t, m.pruneNodes([]*node{n})) },
		m.dropNames, // for a kernel without the note
	} {
		assert.Equal(t, []string{"both: EACCES"}, m.try(oneUser, "closed", "both"))
		n := m.table.child(m.table.node(1), "closed")
		require.True(t, m.table.knows(n))
		prune(n)
		assert.Eventually(t, func() bool { return !m.table.knows(n) }, 10*time.Second, time.Millisecond)
	}
}
