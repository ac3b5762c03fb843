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

// countKnownNodes returns how many nodes the kernel knows, and how many exist.
func (m *testMount) countKnownNodes() (known, all int) {
	m.table.mu.RLock()
	defer m.table.mu.RUnlock()
	return len(m.table.nodes) - m.table.parked.Len(), len(m.table.nodes)
}

// TestPrune lists and stats more files than the kernel may know. It checks that
// the kernel forgets some, and that everything still works.
func TestPrune(t *testing.T) {
	s, m := newMount(t)
	const files, capacity = 3000, 256
	m.table.capacity = capacity
	require.NoError(t, os.Mkdir(s.path("d"), 0o755))
	for i := range files {
		writeFile(t, s.path(fmt.Sprint("d/", i)), nil)
	}
	writeFile(t, s.path("open"), []byte("open"))
	f := openAt(t, m.path("open"), os.O_RDONLY)
	kept := m.table.findChild(m.table.findNode(1), "open")
	d, err := os.Open(m.path("d"))
	require.NoError(t, err)
	defer d.Close()
	names, err := d.Readdirnames(-1)
	require.NoError(t, err)
	assert.Len(t, names, files)
	known, _ := m.countKnownNodes()
	assert.LessOrEqual(t, known, capacity+1, "a listing may have read one entry ahead")
	for i := range files {
		assert.FileExists(t, m.path(fmt.Sprint("d/", i)))
	}
	next := 0
	assert.Eventually(t, func() bool {
		mustLstat(t, m.path(fmt.Sprint("d/", next)))
		next = (next + 37) % files
		known, _ := m.countKnownNodes()
		return known <= capacity
	}, 10*time.Second, prunePoll)
	assert.True(t, m.table.isKnownToKernel(kept))
	got := make([]byte, 4)
	_, err = f.ReadAt(got, 0)
	require.NoError(t, err)
	assert.Equal(t, "open", string(got))
}

// TestPruneNames checks that a kernel without the notification for pruning forgets
// files.
func TestPruneNames(t *testing.T) {
	s, m := newMount(t)
	writeFile(t, s.path("a"), nil)
	require.NoError(t, os.Mkdir(s.path("d"), 0o755))
	mustLstat(t, m.path("a"))
	mustLstat(t, m.path("d"))
	root := m.table.findNode(1)
	a, d := m.table.findChild(root, "a"), m.table.findChild(root, "d")
	m.dropNames(a)
	m.dropNames(d)
	assert.Eventually(t, func() bool { return !m.table.isKnownToKernel(a) }, 10*time.Second, time.Millisecond)
	assert.True(t, m.table.isKnownToKernel(d), "it may have a mount on it")
}

// TestPruneOld checks that pruning skips a used node once.
func TestPruneOld(t *testing.T) {
	tab := newTable(new(Mount), nfs3.FH("root"))
	root := tab.findNode(1)
	var all []*node
	for i := range 4 {
		n, _ := tab.referNode(nfs3.FH(fmt.Sprint(i)), root, fmt.Sprint(i), sighting{stamp: noStamp})
		all = append(all, n)
	}
	tab.findNode(all[0].id)
	tab.addOpen(all[1])
	tab.dropReferences(all[2].id, 1)
	tab.findNode(all[0].id)
	assert.True(t, slices.Equal([]*node{all[3]}, tab.unusedNodesLocked(9)))
	assert.Len(t, tab.unusedNodesLocked(9), 2)
}

// TestPruneShut checks that the kernel forgets a node that it knows by the
// number with substituteBit.
func TestPruneShut(t *testing.T) {
	s, m := newMount(t)
	createSpecialFiles(t, s)
	for _, prune := range []func(n *node){
		func(n *node) { assert.True(t, m.pruneNodes([]*node{n})) },
		m.dropNames, // for a kernel without the note
	} {
		assert.Equal(t, []string{"both: EACCES"}, m.tryAs(oneUser, "closed", "both"))
		n := m.table.findChild(m.table.findNode(1), "closed")
		require.True(t, m.table.isKnownToKernel(n))
		prune(n)
		assert.Eventually(t, func() bool { return !m.table.isKnownToKernel(n) }, 10*time.Second, time.Millisecond)
	}
}
