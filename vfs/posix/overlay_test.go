//go:build linux

package posix

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// overlayTestFS returns an export of an overlayfs. fill makes the lower layer.
func overlayTestFS(t *testing.T, fill func(lower string)) *testFS {
	vfstest.NeedRoot(t)
	dir := mountOverlay(t)
	fill(filepath.Join(filepath.Dir(dir), "lower"))
	// Below another mount of the same layers, because fill has changed the lower one.
	require.NoError(t, unix.Unmount(dir, 0))
	mountLayers(t, dir)
	checkCleanup(t)
	s := &exportedDir{dir, Options{StateDir: t.TempDir()}}
	return &testFS{t, s, s.open(t), vfs.Cred{}}
}

func (w *testFS) read(h vfs.Handle, n int) string {
	w.Helper()
	p := make([]byte, n)
	n, _, _, err := w.f.Read(w.Context(), &w.c, h, p, 0)
	require.NoError(w, err)
	return string(p[:n])
}

func (w *testFS) rewrite(h vfs.Handle, data string) {
	w.Helper()
	_, _, _, err := w.f.Write(w.Context(), &w.c, h, []byte(data), 0, vfs.FileSync)
	require.NoError(w, err)
}

func (w *testFS) hostRead(name string) string {
	w.Helper()
	b, err := os.ReadFile(w.s.path(name))
	require.NoError(w, err)
	return string(b)
}

// expireIdle closes everything that is idle.
func (w *testFS) expireIdle() {
	for range 2 * idleTicks {
		w.f.cache.sweepAll()
	}
}

// TestOverlayRead checks that READ returns what an acknowledged WRITE has written to a
// file of a lower layer, although a mapping would show the lower layer for ever.
func TestOverlayRead(t *testing.T) {
	const size = 1 << 20
	w := overlayTestFS(t, func(lower string) {
		require.NoError(t, os.WriteFile(filepath.Join(lower, "big"), bytes.Repeat([]byte("o"), size), 0o666))
	})
	h := w.walk("big")
	read := func() byte {
		b, _, _, err := w.f.Map(t.Context(), &w.c, h, 0, size)
		require.NoError(t, err)
		if b == nil {
			return w.read(h, 1)[0]
		}
		defer b.Release()
		return b.B[0]
	}
	opened := w.openFile(h, openBoth)
	defer opened.Close()
	assert.Equal(t, "o", string(read()))
	w.rewrite(h, string(bytes.Repeat([]byte("N"), size)))
	assert.Equal(t, "N", string(read()))
	b, _, err := opened.Read.Map(t.Context(), 0, size)
	require.NoError(t, err)
	assert.True(t, b == nil, "nothing is lent")
	p := make([]byte, 1)
	_, _, err = opened.Read.Read(t.Context(), p, 0)
	require.NoError(t, err)
	assert.Equal(t, "N", string(p))
}

// TestOverlayLinks checks that names of a hard-linked file of a lower layer are what
// they are to a local process: the first change by one of them parts it from the
// others. The handles stay good, with their file IDs.
func TestOverlayLinks(t *testing.T) {
	for how, again := range map[string]func(*testFS){"in use": func(*testFS) {}, "idle": (*testFS).expireIdle, "restart": (*testFS).reopen} {
		t.Run(how, func(t *testing.T) {
			w := overlayTestFS(t, func(lower string) {
				require.NoError(t, os.WriteFile(filepath.Join(lower, "one"), []byte("old"), 0o666))
				for _, name := range []string{"two", "three", "four"} {
					require.NoError(t, os.Link(filepath.Join(lower, "one"), filepath.Join(lower, name)))
				}
			})
			two, one, three, four := w.walk("two"), w.walk("one"), w.walk("three"), w.walk("four")
			id := func(h vfs.Handle) uint64 {
				a, err := w.f.GetAttr(t.Context(), &w.c, h)
				require.NoError(t, err)
				return a.FileID
			}
			was := id(one)
			assert.Equal(t, was, id(two), "as the host tells")
			again(w)
			w.rewrite(one, "new")
			again(w)
			for name, h := range map[string]vfs.Handle{"one": one, "two": two, "three": three} {
				assert.Equal(t, w.hostRead(name), w.read(h, 3), name)
				assert.Equal(t, w.hostRead(name), w.read(w.walk(name), 3), name)
				assert.Equal(t, was, id(h), name)
			}
			assert.Equal(t, "new", w.hostRead("one"))
			assert.Equal(t, "old", w.hostRead("two"))
			assert.NotEqual(t, was, id(w.walk("one")), "as the host tells")

			_, _, err := w.f.Rename(t.Context(), &w.c, w.f.Root(), "two", w.f.Root(), "moved")
			require.NoError(t, err)
			again(w)
			w.rewrite(two, "two")
			again(w)
			assert.Equal(t, "two", w.hostRead("moved"))
			assert.Equal(t, "two", w.read(two, 3))
			assert.Equal(t, "two", w.read(w.walk("moved"), 3))

			_, err = w.f.Remove(t.Context(), &w.c, w.f.Root(), "three")
			require.NoError(t, err)
			w.expireIdle()
			assert.Equal(t, unix.ESTALE, w.getattr(three))
			assert.Equal(t, "old", w.read(four, 3))

			_, _, err = w.f.Link(t.Context(), &w.c, four, w.f.Root(), "five")
			require.NoError(t, err)
			again(w)
			w.rewrite(w.walk("five"), "5th")
			again(w)
			assert.Equal(t, "5th", w.hostRead("four"))
			assert.Equal(t, "5th", w.read(four, 3))
			assert.Equal(t, "5th", w.read(w.walk("four"), 3))
		})
	}
}

// TestOverlayKeys checks that the locks of one name of a file of a lower layer are not
// those of another, and stay when the file is copied up.
func TestOverlayKeys(t *testing.T) {
	w := overlayTestFS(t, func(lower string) {
		require.NoError(t, os.Link(filepath.Join(lower, "a"), filepath.Join(lower, "a2")))
	})
	for _, name := range []string{"a", "a2"} {
		_, err := w.f.AppendKey(nil, w.walk(name))
		assert.Equal(t, unix.EOPNOTSUPP, err)
		_, err = w.f.AppendKeyOf(nil, w.f.Root(), name)
		assert.Equal(t, unix.EOPNOTSUPP, err)
	}
	assert.NotEqual(t, w.walk("a"), w.walk("a2"))
	b := w.walk("b")
	key, err := w.f.AppendKey(nil, b)
	require.NoError(t, err)
	w.rewrite(b, "new")
	w.expireIdle()
	later, err := w.f.AppendKey(nil, b)
	require.NoError(t, err)
	assert.Equal(t, key, later)
}

// TestOverlayAlias checks that a change by the handle of one name of a hard-linked file is known
// as a change of the copy, which has a key under its new handle.
func TestOverlayAlias(t *testing.T) {
	w := overlayTestFS(t, func(lower string) {
		require.NoError(t, os.Link(filepath.Join(lower, "a"), filepath.Join(lower, "a2")))
	})
	old := w.walk("a2")
	for _, again := range []func(*testFS){func(*testFS) {}, (*testFS).expireIdle, (*testFS).reopen} {
		again(w)
		w.rewrite(old, "new")
		now := w.walk("a2")
		require.NotEqual(t, old, now)
		want, err := w.f.AppendKey(nil, now)
		require.NoError(t, err)
		got, err := w.f.AppendAliasKey(nil, old)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// TestOverlayCopyUp checks that handles of files and directories of a lower layer lead to
// their copies in the upper layer.
func TestOverlayCopyUp(t *testing.T) {
	w := overlayTestFS(t, func(lower string) {
		require.NoError(t, os.MkdirAll(filepath.Join(lower, "d", "e"), 0o777))
		for _, name := range []string{"f", "g"} {
			require.NoError(t, os.WriteFile(filepath.Join(lower, "d", "e", name), []byte("old"), 0o666))
		}
	})
	d, e, f, g, a, b := w.walk("d"), w.walk("d", "e"), w.walk("d", "e", "f"), w.walk("d", "e", "g"), w.walk("a"), w.walk("b")
	w.expireIdle()
	w.rewrite(f, "new") // copies d and e up too
	mode := uint32(0o600)
	_, err := w.f.SetAttr(t.Context(), &w.c, g, vfs.SetAttr{Mode: &mode}, nil)
	require.NoError(t, err)
	_, _, err = w.f.Rename(t.Context(), &w.c, w.f.Root(), "a", d, "moved")
	require.NoError(t, err)
	require.NoError(t, w.getattr(b))
	require.NoError(t, os.WriteFile(w.s.path("b"), []byte("by the host"), 0o666))
	same := w.walk("b")
	assert.Equal(t, b, same, "a copy-up by the host of a file in use")
	for _, again := range []func(*testFS){(*testFS).expireIdle, (*testFS).reopen} {
		again(w)
		for _, h := range []vfs.Handle{d, e, f, g, a, b} {
			assert.NoError(t, w.getattr(h))
		}
		assert.Equal(t, "new", w.read(f, 3))
		assert.Equal(t, []vfs.Handle{d, e, f, g, a, b},
			[]vfs.Handle{w.walk("d"), w.walk("d", "e"), w.walk("d", "e", "f"), w.walk("d", "e", "g"), w.walk("d", "moved"), w.walk("b")})
	}
}

// TestOverlayNumberAgain checks that a directory which gets the inode number of a removed one
// does not get its handle.
func TestOverlayNumberAgain(t *testing.T) {
	vfstest.NeedRoot(t)
	base := t.TempDir()
	mountImage("ext4", "mkfs.ext4", "-q")(t, base, func(string) {})
	for _, d := range []string{"lower", "upper", "work", "all"} {
		require.NoError(t, os.Mkdir(filepath.Join(base, d), 0o755))
	}
	dir := filepath.Join(base, "all")
	mountLayers(t, dir)
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	s := &exportedDir{dir, Options{StateDir: t.TempDir()}}
	w := &testFS{t, s, s.open(t), vfs.Cred{}}
	w.hostDir("removed")
	removed := w.walk("removed")
	var was, is unix.Stat_t
	require.NoError(t, unix.Stat(w.s.path("removed"), &was))
	w.expireIdle()
	require.NoError(t, os.Remove(w.s.path("removed")))
	time.Sleep(10 * time.Millisecond) // another birth time
	w.hostDir("made")
	require.NoError(t, unix.Stat(w.s.path("made"), &is))
	if was.Ino != is.Ino {
		t.Skip("the file system does not use the number again")
	}
	assert.NotEqual(t, removed, w.walk("made"))
	w.expireIdle()
	assert.Equal(t, unix.ESTALE, w.getattr(removed))
}

// TestOverlayRoot checks that an export of a directory of a lower layer, and its files,
// have the same handles after the directory was copied up and the server has restarted.
func TestOverlayRoot(t *testing.T) {
	all := overlayTestFS(t, func(lower string) {
		require.NoError(t, os.MkdirAll(filepath.Join(lower, "d", "e"), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(lower, "d", "e", "f"), []byte("old"), 0o666))
	})
	s := &exportedDir{all.s.path("d"), Options{StateDir: t.TempDir()}}
	w := &testFS{t, s, s.open(t), vfs.Cred{}}
	root, f := w.f.Root(), w.walk("e", "f")
	time.Sleep(10 * time.Millisecond) // another birth time
	w.rewrite(f, "new")
	w.reopen()
	assert.Equal(t, root, w.f.Root())
	assert.NoError(t, w.getattr(f))
	assert.Equal(t, f, w.walk("e", "f"))
}

// TestOverlayLinkAgain checks that a name of a hard-linked file, which had another
// handle while an earlier one led to another name, keeps it when that one has gone.
func TestOverlayLinkAgain(t *testing.T) {
	w := overlayTestFS(t, func(lower string) {
		for _, name := range []string{"a2", "a3"} {
			require.NoError(t, os.Link(filepath.Join(lower, "a"), filepath.Join(lower, name)))
		}
	})
	first := w.walk("a2")
	_, _, err := w.f.Rename(t.Context(), &w.c, w.f.Root(), "a2", w.f.Root(), "moved")
	require.NoError(t, err)
	_, _, err = w.f.Link(t.Context(), &w.c, first, w.f.Root(), "a2")
	require.NoError(t, err)
	second := w.walk("a2")
	assert.NotEqual(t, first, second)
	_, err = w.f.Remove(t.Context(), &w.c, w.f.Root(), "moved")
	require.NoError(t, err)
	assert.Equal(t, second, w.walk("a2"))
	for range 2 { // the table keeps nothing of the first one
		w.reopen()
		assert.Equal(t, second, w.walk("a2"))
	}
	_, err = w.f.Remove(t.Context(), &w.c, w.f.Root(), "a2")
	require.NoError(t, err)
	w.expireIdle()
	assert.Equal(t, unix.ESTALE, w.getattr(second))
}

// TestLinkNumbers checks that a name whose digest is the inode number of another object
// takes nothing from that one.
func TestLinkNumbers(t *testing.T) {
	w := newTestFS(t, tableKind())
	th := w.f.handles.(*tableHandles)
	id, name := handletable.Identity{Ino: 1, Birth: 2}, handletable.Place{Dir: 3, Name: "name"}
	other := handletable.Entry{ID: handletable.ID{Ino: linkID(id, name, 0).Ino, Birth: 4}, Places: []handletable.Place{{Dir: 3, Name: "other"}}}
	th.fs.traits.links = false
	th.table.Lock()
	defer th.table.Unlock()
	require.NoError(t, th.table.Put(&other))
	h, err := th.ofLink(id, name)
	require.NoError(t, err)
	link, ok, err := th.linkAt(id, name)
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, h, entryHandle(&link))
	got, ok, err := th.table.Get(other.Ino)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, other, got)
}
