//go:build linux

package posix

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

func (w *testFS) within(h vfs.Handle) error { return w.f.Within(w.Context(), &w.c, h) }

// hostOut moves a name out of the export, and hostIn moves it back.
func (w *testFS) hostOut(name string) {
	w.Helper()
	require.NoError(w, os.Rename(w.s.path(name), w.s.path("..", "outside")))
}

func (w *testFS) hostIn(name string) {
	w.Helper()
	require.NoError(w, os.Rename(w.s.path("..", "outside"), w.s.path(name)))
}

// TestWithin checks that an object moved out of the export by a local process
// is outside, with everything below it, and inside again when it comes back;
// objects moved within the export stay inside. This holds for objects in use
// and for others.
func TestWithin(t *testing.T) {
	eachKind(t, func(t *testing.T, o Options) {
		w := newTestFS(t, o)
		w.hostDir("d/e/(deleted)")
		w.hostFile("d/e/f (deleted)")
		w.hostFile("g")
		require.NoError(t, os.Symlink("g", w.s.path("d", "l")))
		require.NoError(t, unix.Mkfifo(w.s.path("d", "p"), 0o600))
		root := w.f.Root()
		in := []vfs.Handle{
			w.walk("d"), w.walk("d", "e"), w.walk("d", "e", "(deleted)"), w.walk("d", "e", "f (deleted)"),
			w.walk("d", "l"), w.walk("d", "p"),
		}
		g := w.walk("g")
		all := func(want error) {
			t.Helper()
			for i, h := range in {
				assert.ErrorIs(t, w.within(h), want, i)
			}
			assert.NoError(t, w.within(root))
			assert.NoError(t, w.within(g))
		}
		all(nil)
		w.hostOut("d")
		all(unix.ESTALE)
		w.hostDir("d/e") // another directory with the name
		all(unix.ESTALE)
		w.hostIn("g2")
		all(nil)
		w.hostMove("g2/e", "e")
		all(nil)
		w.hostOut("g")
		assert.ErrorIs(t, w.within(g), unix.ESTALE)
		require.NoError(t, w.getattr(g), "it still exists")
		require.NoError(t, os.Symlink("../outside", w.s.path("g")))
		assert.ErrorIs(t, w.within(g), unix.ESTALE)
		require.NoError(t, os.Remove(w.s.path("g")))
		w.hostIn("g")
		all(nil)
	})
}

// TestWithinRestart checks that names lead everywhere after a restart, with
// handles of the table, although nothing is open.
func TestWithinRestart(t *testing.T) {
	w := newTestFS(t, Options{TableHandles: true})
	w.hostDir("d/e")
	w.hostFile("d/e/f")
	w.hostFile("d/other")
	f, other := w.walk("d", "e", "f"), w.walk("d", "other")
	w.reopen()
	assert.NoError(t, w.within(f))
	w.hostMove("d/e/f", "d/e/g")
	w.reopen()
	assert.NoError(t, w.within(f))
	w.hostOut("d/other")
	w.reopen()
	assert.ErrorIs(t, w.within(other), unix.ESTALE)
}

// TestWithinLink checks that a file is inside if one of its names is removed or
// moved out and another remains.
func TestWithinLink(t *testing.T) {
	w := newTestFS(t, Options{TableHandles: true})
	w.hostDir("d")
	w.hostFile("d/f")
	f := w.walk("d", "f")
	require.NoError(t, os.Link(w.s.path("d", "f"), w.s.path("k")))
	require.Equal(t, f, w.walk("k"))
	require.NoError(t, os.Remove(w.s.path("d", "f")))
	assert.NoError(t, w.within(f))
	w.hostFile("d/f")
	w.hostFile("d/f (deleted)") // the kernel's name for the removed one
	assert.NoError(t, w.within(f), "others have its old name")
	w.hostOut("k")
	assert.ErrorIs(t, w.within(f), unix.ESTALE)
}

// TestWithinSearch checks that the caller must have search permission on all
// directories on the way, as with knfsd.
func TestWithinSearch(t *testing.T) {
	vfstest.NeedRoot(t)
	eachKind(t, func(t *testing.T, o Options) {
		w := newTestFS(t, o)
		w.hostDir("d/e")
		w.hostFile("d/e/f")
		d, f := w.walk("d"), w.walk("d", "e", "f")
		require.NoError(t, w.within(f))
		require.NoError(t, os.Chmod(w.s.path("d"), 0o700))
		assert.ErrorIs(t, w.within(f), unix.ESTALE)
		assert.NoError(t, w.within(d), "its own mode governs its entries")
		assert.NoError(t, w.f.Within(t.Context(), &vfs.Cred{}, f), "root may enter")
		require.NoError(t, os.Chmod(w.s.path("d"), 0o711))
		assert.NoError(t, w.within(f))
		require.NoError(t, os.Chmod(w.s.dir, 0o700))
		require.NoError(t, os.Chown(w.s.dir, 0, 0))
		assert.ErrorIs(t, w.within(f), unix.ESTALE)
	})
}

// TestWithinNoClone checks paths that begin above the export, as without a copy
// of the mount.
func TestWithinNoClone(t *testing.T) {
	vfstest.NeedRoot(t)
	checkCleanup(t)
	s := newExportedDir(t, "", Options{})
	w := &testFS{t, s, s.openOnMount(t), user()}
	w.hostDir("d/e")
	d, e := w.walk("d"), w.walk("d", "e")
	assert.NoError(t, w.within(e))
	require.NoError(t, os.Rename(s.dir, s.dir+"2"))
	assert.NoError(t, w.within(e), "the export itself has moved")
	s.dir += "2"
	w.hostOut("d")
	assert.ErrorIs(t, w.within(d), unix.ESTALE)
	assert.ErrorIs(t, w.within(e), unix.ESTALE)
}

// TestWithinDeep checks that a path too long for the kernel is an error, not a
// wrong answer.
func TestWithinDeep(t *testing.T) {
	w := newTestFS(t, Options{TableHandles: true})
	h := w.f.Root()
	for range 20 {
		m, err := w.f.Mkdir(t.Context(), &w.c, h, strings.Repeat("d", 250), vfs.SetAttr{})
		require.NoError(t, err)
		h = m.Handle
	}
	assert.ErrorIs(t, w.within(h), unix.ENAMETOOLONG)
}

// TestWithinRemovedOpen checks that a removed file stays in the export as long as
// it is open, also if a local process removes it.
func TestWithinRemovedOpen(t *testing.T) {
	eachKind(t, func(t *testing.T, o Options) {
		w := newTestFS(t, o)
		for _, by := range []string{"client", "host"} {
			m, open, err := w.f.CreateFile(t.Context(), &w.c, w.f.Root(), by, vfs.CreateHow{Mode: vfs.Guarded}, openBoth)
			require.NoError(t, err)
			require.NoError(t, w.within(m.Handle))
			if by == "host" {
				require.NoError(t, os.Remove(w.s.path(by)))
			} else {
				_, err = w.f.Remove(t.Context(), &w.c, w.f.Root(), by)
				require.NoError(t, err)
			}
			assert.NoError(t, w.within(m.Handle), by)
			open.Close()
			assert.ErrorIs(t, w.within(m.Handle), unix.ESTALE, by)
		}
	})
}
