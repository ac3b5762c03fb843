package fusefs

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// TestPruneRecalled has the kernel forget files all the time while another mount
// makes and removes names in their directories. It checks that no name is stale,
// and that every file is forgotten in the end.
func TestPruneRecalled(t *testing.T) {
	s := newGrantingServer(t, true)
	const dirs, files, rounds = 10, 100, 3
	names := s.createTree(dirs, files)
	m, other := s.mount(nil), s.mount(nil)
	m.table.mu.Lock()
	m.table.capacity = dirs * files / 8
	m.table.mu.Unlock()
	for round := range rounds {
		read := make(chan struct{})
		go func() {
			defer close(read)
			for _, name := range names {
				_, content := statAndRead(t, m.path(name))
				assert.Equal(t, name, content)
			}
		}()
		for d := range dirs {
			made, gone := fmt.Sprintf("d%d/new%d", d, round), fmt.Sprintf("d%d/new%d", d, round-1)
			writeFile(t, other.path(made), nil)
			assert.FileExists(t, m.path(made))
			if round > 0 {
				assert.FileExists(t, m.path(gone))
				require.NoError(t, os.Remove(other.path(gone)))
				assert.NoFileExists(t, m.path(gone))
			}
		}
		<-read
	}
	assert.Zero(t, s.keeper.Stats().Late)
	assert.Eventually(t, func() bool {
		var known []*node
		for _, n := range m.table.listNodes() {
			if m.table.isKnownToKernel(n) && n.fileType() != nfs3.TypeDir { // absent names in a directory keep it
				known = append(known, n)
			}
		}
		m.pruneNodes(known)
		return len(known) == 0
	}, 10*time.Second, 10*time.Millisecond, "the kernel forgot them")
}
