package fusefs

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// cover mounts a file or directory of the server on a name of the mount.
func (m *mounted) cover(s *server, with, name string) {
	m.t.Helper()
	require.NoError(m.t, unix.Mount(s.file(with), m.file(name), "", unix.MS_BIND, ""))
	m.t.Cleanup(func() { _ = unix.Unmount(m.file(name), unix.MNT_DETACH) })
}

// TestShutCovered has users that may and users that may not open a special file
// walk over it while something is mounted on it. It checks that the mount stays.
func TestShutCovered(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.Mkdir(s.file("d e"), 0o755))
	require.NoError(t, unix.Mkfifo(s.file("d e/closed"), 0o600))
	special(t, s)
	put(t, s.file("other"), []byte("other"))
	require.NoError(t, os.Chmod(s.file("other"), 0o640))
	for _, name := range []string{"closed", "d e/closed"} {
		m.cover(s, "other", name)
		for range 2 {
			assert.Equal(t, []string{"type: - 0640 1"}, m.try(0, name, "type"))
			assert.Equal(t, []string{"type: ENOMEM", "both: ENOMEM"}, m.try(oneUser, name, "type", "both"))
		}
		require.NoError(t, unix.Unmount(m.file(name), 0))
		assert.Equal(t, []string{"both: EACCES"}, m.try(oneUser, name, "both"))
	}
	assert.Equal(t, []string{"type: p 0600 1"}, m.try(0, "closed", "type"))
}

// A rootlessFS gives root no rights to any object but directories.
type rootlessFS struct{ vfs.FS }

func (f rootlessFS) Access(ctx context.Context, c *vfs.Cred, h vfs.Handle, want uint32) (uint32, vfs.MaybeAttr, error) {
	got, a, err := f.FS.Access(ctx, c, h, want)
	if c.UID == 0 && a.Attr.Type != vfs.TypeDir {
		got = 0
	}
	return got, a, err
}

// TestShutCoveredByShut is TestShutCovered for a mount by a caller that may not
// open the special file: a root that the server does not trust.
func TestShutCoveredByShut(t *testing.T) {
	s := newServer(t, func(fs vfs.FS) vfs.FS { return rootlessFS{fs} })
	m := s.mount(nil)
	special(t, s)
	require.NoError(t, unix.Chown(s.file("closed"), oneUser, oneUser))
	put(t, s.file("other"), []byte("other"))
	assert.Equal(t, []string{"both: EACCES"}, m.try(0, "closed", "both"))
	m.cover(s, "other", "closed")
	assert.Equal(t, []string{"type: - 0644 1"}, m.try(0, "closed", "type"))
	assert.Equal(t, []string{"type: ENOMEM"}, m.try(oneUser, "closed", "type"))
	assert.Equal(t, []string{"type: - 0644 1"}, m.try(0, "closed", "type"))
}

// TestCoveredFromUsers checks that a user that may not search a directory does
// not undo a mount in it.
func TestCoveredFromUsers(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.MkdirAll(s.file("private/d"), 0o755))
	require.NoError(t, os.Chmod(s.file("private"), 0o700))
	put(t, s.file("private/f"), nil)
	put(t, s.file("other"), nil)
	require.NoError(t, os.Mkdir(s.file("over"), 0o755))
	put(t, s.file("over/in"), nil)
	m.cover(s, "over", "private/d")
	m.cover(s, "other", "private/f")
	for range 2 {
		assert.Equal(t, []string{"read: ok"}, m.try(0, "private/d/in", "read"))
		assert.Equal(t, []string{"type: ENOMEM"}, m.try(oneUser, "private/d/in", "type"))
		assert.Equal(t, []string{"type: ENOMEM"}, m.try(oneUser, "private/f", "type"))
		assert.Equal(t, []string{"type: EACCES"}, m.try(oneUser, "private/none", "type"))
	}
	assert.NotEmpty(t, mountLine(t, m.file("private/f")))
}

// TestPointsOn checks which paths of a file system are mount points.
func TestPointsOn(t *testing.T) {
	const mounts = `21 1 0:1 / / rw - ext4 x rw
30 21 0:52 / /m\040n rw - fuse.nfsrdma x rw
31 21 0:52 /sub /elsewhere rw - fuse.nfsrdma x rw
32 30 0:60 / /m\040n/a/b\134c rw - tmpfs x rw
33 31 0:61 / /elsewhere/d rw - tmpfs x rw
34 33 0:61 / /elsewhere/d/e rw - tmpfs x rw
broken
`
	points := pointsOn([]byte(mounts), []byte("0:52"))
	assert.Equal(t, []string{`/a/b\c`, "/sub/d"}, points)
	assert.Empty(t, pointsOn([]byte(mounts), []byte("0:5")))

	m := new(Mount)
	m.table = newTable(m, nfs3.FH("root"))
	root := m.table.node(1)
	a, _ := m.table.refer(nfs3.FH("a"), root, "a", sight{})
	m.table.refer(nfs3.FH("b"), a, `b\c`, sight{})
	assert.True(t, m.table.isAt(a, `b\c`, points))
	assert.False(t, m.table.isAt(root, `b\c`, points))
	assert.False(t, m.table.isAt(a, "b", points))
	assert.True(t, m.table.isAt(root, "x", []string{"/y", "/x"}))
}
