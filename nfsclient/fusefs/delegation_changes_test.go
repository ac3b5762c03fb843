package fusefs

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// assertSameAsServer asserts that a mount shows the server's object at a name, content
// included.
func (m *testMount) assertSameAsServer(s *testServer, name string) {
	m.t.Helper()
	var here, there unix.Stat_t
	err := unix.Lstat(s.path(name), &there)
	assert.Equal(m.t, err, unix.Lstat(m.path(name), &here), name)
	if err != nil {
		_, err := os.Open(m.path(name))
		assert.ErrorIs(m.t, err, unix.ENOENT)
		return
	}
	assert.Equal(m.t, comparableStat(&there), comparableStat(&here), name)
	if there.Mode&unix.S_IFMT == unix.S_IFDIR {
		assert.ElementsMatch(m.t, listNames(m.t, s.path(name)), listNames(m.t, m.path(name)), name)
		return
	}
	_, want := statAndRead(m.t, s.path(name))
	_, got := statAndRead(m.t, m.path(name))
	assert.Equal(m.t, want, got, name)
}

// TestHeldMounted checks that a file system mounted on a delegated directory
// stays mounted when the delegation is recalled.
func TestHeldMounted(t *testing.T) {
	s := newLeasingServer(t, 300*time.Millisecond, true)
	one, two := s.mount(nil), s.mount(nil)
	require.NoError(t, os.Mkdir(s.path("d"), 0o755))
	upon := t.TempDir()
	writeFile(t, upon+"/below", nil)
	one.assertSameAsServer(s, "d")
	require.NoError(t, unix.Mount(upon, one.path("d"), "", unix.MS_BIND, ""))
	defer func() { assert.NoError(t, unix.Unmount(one.path("d"), unix.MNT_DETACH)) }()
	require.FileExists(t, one.path("d/below"))
	writeFile(t, two.path("a"), []byte("a"))
	one.assertSameAsServer(s, "a")
	assert.FileExists(t, one.path("d/below"))
}

// heldTree is the names that TestHeldChanges begins with, absent ones included.
var heldTree = []string{"", "a", "d", "d/b", "none", "d/none", "a.new"}

// TestHeldChanges has one mount hold delegations of a tree, and checks that the
// mount sees each change by another one.
func TestHeldChanges(t *testing.T) {
	for _, tt := range []struct {
		what   string
		change func(file func(string) string) error
	}{
		{"write", func(f func(string) string) error { return os.WriteFile(f("a"), []byte("longer than it was"), 0) }},
		{"write unseen", func(f func(string) string) error {
			st := mustLstat(t, f("a"))
			if err := os.WriteFile(f("a"), []byte("A"), 0); err != nil {
				return err
			}
			mtime := time.Unix(st.Mtim.Unix())
			return os.Chtimes(f("a"), mtime, mtime)
		}},
		{"truncate", func(f func(string) string) error { return os.Truncate(f("a"), 0) }},
		{"chmod", func(f func(string) string) error { return os.Chmod(f("a"), 0o600) }},
		{"chmod of a directory", func(f func(string) string) error { return os.Chmod(f("d"), 0o711) }},
		{"rename over", func(f func(string) string) error { return os.Rename(f("a"), f("d/b")) }},
		{"rename away", func(f func(string) string) error { return os.Rename(f("d/b"), f("d/none")) }},
		{"rename of a directory", func(f func(string) string) error { return os.Rename(f("d"), f("none")) }},
		{"unlink", func(f func(string) string) error { return os.Remove(f("d/b")) }},
		{"link", func(f func(string) string) error { return os.Link(f("a"), f("d/none")) }},
		{"create", func(f func(string) string) error { return os.WriteFile(f("d/none"), []byte("new"), 0o644) }},
		{"mkdir", func(f func(string) string) error { return os.Mkdir(f("none"), 0o755) }},
		{"symlink", func(f func(string) string) error { return os.Symlink("b", f("d/none")) }},
		{"replace", func(f func(string) string) error {
			if err := os.WriteFile(f("a.new"), []byte("b"), 0o644); err != nil {
				return err
			}
			return os.Rename(f("a.new"), f("a"))
		}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			s := newGrantingServer(t, true)
			writeFile(t, s.path("a"), []byte("a"))
			require.NoError(t, os.Mkdir(s.path("d"), 0o755))
			writeFile(t, s.path("d/b"), []byte("b"))
			one, two := s.mount(nil), s.mount(nil)
			var files [][2]*os.File
			for _, name := range []string{"a", "d", "d/b"} {
				files = append(files, [2]*os.File{openAt(t, one.path(name), os.O_RDONLY), openAt(t, s.path(name), os.O_RDONLY)})
			}
			look := func() {
				t.Helper()
				for _, f := range files {
					var here, there unix.Stat_t
					require.NoError(t, unix.Fstat(int(f[1].Fd()), &there))
					if there.Nlink > 0 {
						require.NoError(t, unix.Fstat(int(f[0].Fd()), &here))
						assert.Equal(t, comparableStat(&there), comparableStat(&here), f[0].Name())
					}
				}
				for _, name := range heldTree {
					one.assertSameAsServer(s, name)
				}
			}
			for range 2 {
				look()
			}
			held := one.set.Stats().Held
			assert.EqualValues(t, 4, held)
			require.NoError(t, tt.change(two.path))
			assert.Less(t, one.set.Stats().Held, held)
			for range 2 {
				look()
			}
		})
	}
}
