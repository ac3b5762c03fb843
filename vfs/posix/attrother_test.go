//go:build linux

package posix

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// twoSeen returns two exclusive FS of one directory.
func twoSeen(t *testing.T, o Options) (s *site, f, g *FS) {
	vfstest.NeedRoot(t)
	o.Exclusive, o.StateDir = true, t.TempDir()
	s = newSite(t, "/dev/shm", o)
	f = s.open(t)
	s.o.StateDir = t.TempDir()
	return s, f, s.open(t)
}

// TestSeenByMount checks that FS share no attributes if their mounts may show others: a
// mount may map the owners, or be a snapshot.
func TestSeenByMount(t *testing.T) {
	clean(t)
	s, f, g := twoSeen(t, Options{})
	require.NotEqual(t, f.rootStat.Mnt_id, g.rootStat.Mnt_id)
	m, err := f.Create(t.Context(), &vfs.Cred{}, f.Root(), "f", vfs.CreateHow{})
	require.NoError(t, err)
	h, _, _, err := g.Lookup(t.Context(), &vfs.Cred{}, g.Root(), "f")
	require.NoError(t, err)
	sees := func(f *FS, h vfs.Handle, want uint32) {
		t.Helper()
		a, err := f.GetAttr(t.Context(), &vfs.Cred{}, h)
		require.NoError(t, err)
		assert.Equal(t, want, a.UID)
	}
	sees(f, m.Handle, 0)
	require.NoError(t, os.Chown(s.path("f"), 7, 7)) // as if by the mount
	sees(f, m.Handle, 0)
	sees(g, h, 7)
}
