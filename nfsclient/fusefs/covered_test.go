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

// mountOver mounts a file or directory of the server on a name of the mount.
func (m *testMount) mountOver(s *testServer, with, name string) {
	m.t.Helper()
	require.NoError(m.t, unix.Mount(s.path(with), m.path(name), "", unix.MS_BIND, ""))
	m.t.Cleanup(func() { _ = unix.Unmount(m.path(name), unix.MNT_DETACH) })
}

// TestShutCovered has users that may and users that may not open a special file
// walk over it while something is mounted on it. It checks that the mount stays.
func TestShutCovered(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.Mkdir(s.path("d e"), 0o755))
	require.NoError(t, unix.Mkfifo(s.path("d e/closed"), 0o600))
	createSpecialFiles(t, s)
	writeFile(t, s.path("other"), []byte("other"))
	require.NoError(t, os.Chmod(s.path("other"), 0o640))
	for _, name := range []string{"closed", "d e/closed"} {
		m.mountOver(s, "other", name)
		for range 2 {
			assert.Equal(t, []string{"type: - 0640 1"}, m.tryAs(0, name, "type"))
			assert.Equal(t, []string{"type: ENOMEM", "both: ENOMEM"}, m.tryAs(oneUser, name, "type", "both"))
		}
		require.NoError(t, unix.Unmount(m.path(name), 0))
		assert.Equal(t, []string{"both: EACCES"}, m.tryAs(oneUser, name, "both"))
	}
	assert.Equal(t, []string{"type: p 0600 1"}, m.tryAs(0, "closed", "type"))
}

// A fakeNoRootFS gives root no rights to any object but directories.
type fakeNoRootFS struct{ vfs.FS }

func (f fakeNoRootFS) Access(ctx context.Context, c *vfs.Cred, h vfs.Handle, want uint32) (uint32, vfs.MaybeAttr, error) {
	got, a, err := f.FS.Access(ctx, c, h, want)
	if c.UID == 0 && a.Attr.Type != vfs.TypeDir {
		got = 0
	}
	return got, a, err
}

// TestShutCoveredByShut is TestShutCovered for a mount by a caller that may not
// open the special file: a root that the server does not trust.
func TestShutCoveredByShut(t *testing.T) {
	s := newServer(t, func(fs vfs.FS) vfs.FS { return fakeNoRootFS{fs} })
	m := s.mount(nil)
	createSpecialFiles(t, s)
	require.NoError(t, unix.Chown(s.path("closed"), oneUser, oneUser))
	writeFile(t, s.path("other"), []byte("other"))
	assert.Equal(t, []string{"both: EACCES"}, m.tryAs(0, "closed", "both"))
	m.mountOver(s, "other", "closed")
	assert.Equal(t, []string{"type: - 0644 1"}, m.tryAs(0, "closed", "type"))
	assert.Equal(t, []string{"type: ENOMEM"}, m.tryAs(oneUser, "closed", "type"))
	assert.Equal(t, []string{"type: - 0644 1"}, m.tryAs(0, "closed", "type"))
}

// TestCoveredFromUsers checks that a user that may not search a directory does
// not undo a mount in it.
func TestCoveredFromUsers(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.MkdirAll(s.path("private/d"), 0o755))
	require.NoError(t, os.Chmod(s.path("private"), 0o700))
	writeFile(t, s.path("private/f"), nil)
	writeFile(t, s.path("other"), nil)
	require.NoError(t, os.Mkdir(s.path("over"), 0o755))
	writeFile(t, s.path("over/in"), nil)
	m.mountOver(s, "over", "private/d")
	m.mountOver(s, "other", "private/f")
	for range 2 {
		assert.Equal(t, []string{"read: ok"}, m.tryAs(0, "private/d/in", "read"))
		assert.Equal(t, []string{"type: ENOMEM"}, m.tryAs(oneUser, "private/d/in", "type"))
		assert.Equal(t, []string{"type: ENOMEM"}, m.tryAs(oneUser, "private/f", "type"))
		assert.Equal(t, []string{"type: EACCES"}, m.tryAs(oneUser, "private/none", "type"))
	}
	assert.NotEmpty(t, mountLine(t, m.path("private/f")))
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
	points := parseMountPoints([]byte(mounts), []byte("0:52"))
	assert.Equal(t, []string{`/a/b\c`, "/sub/d"}, points)
	assert.Empty(t, parseMountPoints([]byte(mounts), []byte("0:5")))

	m := new(Mount)
	m.table = newTable(m, nfs3.FH("root"))
	root := m.table.findNode(1)
	a, _ := m.table.referNode(nfs3.FH("a"), root, "a", sighting{})
	m.table.referNode(nfs3.FH("b"), a, `b\c`, sighting{})
	assert.True(t, m.table.isAt(a, `b\c`, points))
	assert.False(t, m.table.isAt(root, `b\c`, points))
	assert.False(t, m.table.isAt(a, "b", points))
	assert.True(t, m.table.isAt(root, "x", []string{"/y", "/x"}))
}
