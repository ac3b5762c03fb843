//go:build linux

package posix

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A namer changes names in two directories of an FS, and returns what is said to be
// atomic.
type namer struct {
	t    *testing.T
	ctx  context.Context
	f    *FS
	c    vfs.Cred
	d, e vfs.Handle
}

func newNamer(t *testing.T, base string) (*namer, *site) {
	s := newSite(t, base, Options{})
	require.NoError(t, os.Mkdir(s.path("d"), 0o777))
	require.NoError(t, os.Mkdir(s.path("e"), 0o777))
	n := &namer{t: t, ctx: vfs.WithAtomic(t.Context()), f: s.open(t), c: vfs.Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}}
	for name, to := range map[string]*vfs.Handle{"d": &n.d, "e": &n.e} {
		h, _, _, err := n.f.Lookup(t.Context(), &n.c, n.f.Root(), name)
		require.NoError(t, err)
		*to = h
	}
	return n, s
}

func (n *namer) create(name string) bool {
	n.t.Helper()
	made, err := n.f.Create(n.ctx, &n.c, n.d, name, vfs.CreateHow{Mode: vfs.Guarded})
	require.NoError(n.t, err)
	return made.Dir.Atomic
}

func (n *namer) remove(name string) bool {
	n.t.Helper()
	w, err := n.f.Remove(n.ctx, &n.c, n.d, name)
	require.NoError(n.t, err)
	return w.Atomic
}

func (n *namer) rename(from vfs.Handle, name string, to vfs.Handle, next string) (source, target bool) {
	n.t.Helper()
	w, v, err := n.f.Rename(n.ctx, &n.c, from, name, to, next)
	require.NoError(n.t, err)
	return w.Atomic, v.Atomic
}

// TestAtomic checks WCC.Atomic of each call that changes names, and with changes by other
// processes before, between and in the midst of the calls.
func TestAtomic(t *testing.T) {
	for _, base := range []string{"/dev/shm", "/tmp"} {
		t.Run(base, func(t *testing.T) {
			n, s := newNamer(t, base)
			f := n.f
			assert.False(t, n.create("a"), "nobody knows what was before")
			assert.True(t, n.create("b"))
			made := func(m vfs.Made, err error) {
				t.Helper()
				require.NoError(t, err)
				assert.True(t, m.Dir.Atomic)
			}
			made(f.Mkdir(n.ctx, &n.c, n.d, "dir", vfs.SetAttr{}))
			made(f.Symlink(n.ctx, &n.c, n.d, "link", "a", vfs.SetAttr{}))
			made(f.Mknod(n.ctx, &n.c, n.d, "fifo", vfs.TypeFIFO, vfs.Dev{}, vfs.SetAttr{}))
			made(f.Create(n.ctx, &n.c, n.d, "x", vfs.CreateHow{Mode: vfs.Exclusive, Verifier: 1 << 33}))
			file, _, _, err := f.Lookup(t.Context(), &n.c, n.d, "a")
			require.NoError(t, err)
			_, w, err := f.Link(n.ctx, &n.c, file, n.d, "hard")
			require.NoError(t, err)
			assert.True(t, w.Atomic)
			w, err = f.Rmdir(n.ctx, &n.c, n.d, "dir")
			require.NoError(t, err)
			assert.True(t, w.Atomic)
			source, _ := n.rename(n.d, "b", n.d, "hard")
			assert.True(t, source, "within a directory, over another file")
			source, target := n.rename(n.d, "hard", n.e, "c")
			assert.True(t, source)
			assert.False(t, target, "the first change there")
			source, target = n.rename(n.e, "c", n.d, "c")
			assert.True(t, source)
			assert.True(t, target)

			_, err = f.Remove(n.ctx, &n.c, n.d, "missing")
			require.ErrorIs(t, err, unix.ENOENT)
			_, err = f.Create(n.ctx, &n.c, n.d, "a", vfs.CreateHow{Mode: vfs.Guarded})
			require.ErrorIs(t, err, unix.EEXIST)
			assert.True(t, n.remove("c"), "calls that failed have changed nothing")

			for what, change := range map[string]func() error{
				"a new file":          func() error { return os.WriteFile(s.path("d", "other"), nil, 0o600) },
				"another name":        func() error { return os.Rename(s.path("d", "other"), s.path("d", "else")) },
				"mode":                func() error { return os.Chmod(s.path("d"), 0o775) },
				"lost reports":        func() error { f.witness.heard(-1, unix.IN_Q_OVERFLOW, false); return nil },
				"a call by version 3": func() error { _, err := f.Mkdir(t.Context(), &n.c, n.d, "3", vfs.SetAttr{}); return err },
			} {
				if what == "another name" {
					require.NoError(t, os.WriteFile(s.path("d", "other"), nil, 0o600))
					n.create("before")
					n.remove("before")
				}
				require.NoError(t, change(), what)
				assert.False(t, n.create("new"), what)
				assert.True(t, n.remove("new"), what)
				_ = os.RemoveAll(s.path("d", "other"))
				n.create("after")
				n.remove("after")
			}
			require.NoError(t, os.Chmod(s.path("d", "a"), 0o640))
			require.NoError(t, os.WriteFile(s.path("d", "a"), []byte("data"), 0o640))
			assert.True(t, n.create("y"), "files in the directory may change")

			f.openNamed = func(dir int, name string) (int, error) {
				require.NoError(t, os.Mkdir(s.path("d", "meanwhile"), 0o700))
				return openPath(dir, name)
			}
			assert.False(t, n.remove("y"))
		})
	}
}

// TestAtomicUnasked checks that calls that do not ask cause no work, and that the
// observation of a directory ends with its object.
func TestAtomicUnasked(t *testing.T) {
	n, _ := newNamer(t, "/dev/shm")
	asked := n.ctx
	n.ctx = t.Context()
	for range 2 {
		assert.False(t, n.create("a"))
		assert.False(t, n.remove("a"))
	}
	assert.Zero(t, n.f.witness.fd)
	n.ctx = asked
	n.create("a")
	assert.Len(t, n.f.witness.dirs, 1)
	for range 2 * idleTicks {
		n.f.cache.sweep()
	}
	n.f.witness.mu.Lock()
	defer n.f.witness.mu.Unlock()
	assert.Empty(t, n.f.witness.dirs)
}
