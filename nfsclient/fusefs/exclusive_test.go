package fusefs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// exclusive are the ways in which programs make a name that must not exist, as
// they do for locks.
var exclusive = map[string]func(path string) error{
	"mkdir":   func(path string) error { return unix.Mkdir(path, 0o755) },
	"symlink": func(path string) error { return unix.Symlink("owner", path) },
	"link":    func(path string) error { return unix.Link(path+".own", path) },
	"mknod":   func(path string) error { return unix.Mknod(path, unix.S_IFREG|0o644, 0) },
	"mkfifo":  func(path string) error { return unix.Mkfifo(path, 0o644) },
	"open": func(path string) error {
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	},
}

// TestReleasedName checks that a name that another mount has removed can be made
// exclusively at once: locks of this kind are free when they are released.
func TestReleasedName(t *testing.T) {
	for what, newServer := range map[string]func(testing.TB) *testServer{
		"no delegations": func(t testing.TB) *testServer { return newServer(t, nil) },
		"delegations":    func(t testing.TB) *testServer { return newGrantingServer(t, false) },
		"exclusive":      func(t testing.TB) *testServer { return newGrantingServer(t, true) },
	} {
		for mode, dir := range map[uint32]string{0o777: "public", 0o700: "private"} {
			t.Run(what+", "+dir, func(t *testing.T) {
				s := newServer(t)
				one, two := s.mount(nil), s.mount(nil)
				require.NoError(t, unix.Mkdir(s.path(dir), mode))
				for kind, take := range exclusive {
					name := dir + "/" + kind
					writeFile(t, s.path(name+".own"), nil)
					for range 3 {
						require.NoError(t, take(one.path(name)), kind)
						for range 2 {
							assert.ErrorIs(t, take(two.path(name)), unix.EEXIST, kind)
							mustLstat(t, two.path(name))
						}
						require.NoError(t, os.Remove(one.path(name)))
						assert.NoError(t, take(two.path(name)), "%s: free at once", kind)
						assert.ErrorIs(t, take(one.path(name)), unix.EEXIST, kind)
						require.NoError(t, os.Remove(two.path(name)))
					}
				}
			})
		}
	}
}

// TestExclusiveCalls counts the calls of exclusive creations, and of later uses
// of the name, in a directory that everyone may search and in one for which the
// kernel keeps no names.
func TestExclusiveCalls(t *testing.T) {
	s, m := newMount(t)
	require.NoError(t, os.Mkdir(s.path("d"), 0o700))
	mustLstat(t, m.path("d"))
	for _, name := range []string{"a", "d/a"} {
		calls := func(use func()) int {
			before := m.callCount(nfs3.ProcLookup) + m.callCount(nfs3.ProcMkdir)
			use()
			return m.callCount(nfs3.ProcLookup) + m.callCount(nfs3.ProcMkdir) - before
		}
		assert.Equal(t, 2, calls(func() { require.NoError(t, os.Mkdir(m.path(name), 0o755)) }))
		assert.Equal(t, 1, calls(func() { assert.ErrorIs(t, os.Mkdir(m.path(name), 0o755), os.ErrExist) }))
		assert.LessOrEqual(t, calls(func() {
			for range 10 {
				mustLstat(t, m.path(name))
			}
		}), 1, name)
	}
}
