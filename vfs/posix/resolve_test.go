//go:build linux

package posix

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// A testFS is an export and the host's own view of it.
type testFS struct {
	*testing.T
	s *exportedDir
	f *FS
	c vfs.Cred
}

func newTestFS(t *testing.T, o Options) *testFS {
	checkCleanup(t)
	s := newExportedDir(t, "", o)
	return &testFS{t, s, s.open(t), user()}
}

// reopen acts as if the daemon was killed and restarted: nothing is open.
func (w *testFS) reopen() {
	w.Helper()
	w.s.kill(w)
	w.f = w.s.open(w)
}

func (w *testFS) lookup(dir vfs.Handle, name string) vfs.Handle {
	w.Helper()
	h, _, _, err := w.f.Lookup(w.Context(), &w.c, dir, name)
	require.NoError(w, err, name)
	return h
}

// walk looks up a path from the root.
func (w *testFS) walk(names ...string) (h vfs.Handle) {
	w.Helper()
	h = w.f.Root()
	for _, name := range names {
		h = w.lookup(h, name)
	}
	return h
}

func (w *testFS) getattr(h vfs.Handle) error {
	_, err := w.f.GetAttr(w.Context(), &w.c, h)
	return err
}

// The host's own operations, without the daemon's knowledge.
func (w *testFS) hostFile(name string) {
	w.Helper()
	require.NoError(w, os.WriteFile(w.s.path(name), []byte(name), 0o666))
}

func (w *testFS) hostDir(name string) {
	w.Helper()
	require.NoError(w, os.MkdirAll(w.s.path(name), 0o777))
}

func (w *testFS) hostMove(from, to string) {
	w.Helper()
	require.NoError(w, os.Rename(w.s.path(from), w.s.path(to)))
}

func (w *testFS) entry(h vfs.Handle) handletable.Entry {
	w.Helper()
	id := handletable.ParseID(h.AppendTo(nil)[1:])
	tab := w.f.handles.(*tableHandles).table
	tab.Lock()
	defer tab.Unlock()
	e, ok, err := tab.Get(id.Ino)
	require.NoError(w, err)
	require.True(w, ok)
	return e
}

func tableKind() Options { return Options{TableHandles: true} }

// TestTableMends checks that an object renamed by another process within its
// directory is found there, with one search.
func TestTableMends(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostDir("d")
	w.hostFile("d/f")
	h := w.walk("d", "f")
	w.hostMove("d/f", "d/g")
	require.NoError(t, w.getattr(h), "open as a place, it needs no name")
	w.reopen()
	require.NoError(t, w.getattr(h))
	assert.Equal(t, "g", w.entry(h).Places[0].Name)
	assert.Equal(t, h, w.walk("d", "g"))

	w.hostMove("d", "e")
	w.reopen()
	require.NoError(t, w.getattr(h), "its directory is found too")
}

// TestTableRenameOntoLink checks that the table forgets no name of an object if a RENAME changes
// nothing: both names are hard links to the object, or the file system rejects it.
func TestTableRenameOntoLink(t *testing.T) {
	for name, tt := range map[string]struct {
		gone string // the name that is removed afterwards
		want error
	}{
		"new name removed": {"d/g", nil},
		"old name removed": {"f", nil},
		"refused":          {"f", unix.EROFS},
	} {
		t.Run(name, func(t *testing.T) {
			checkCleanup(t)
			s := newExportedDir(t, "", tableKind())
			if tt.want != nil {
				vfstest.NeedRoot(t)
				mountTmpfs(t, s.dir, "mode=0777")
			}
			w := &testFS{t, s, s.open(t), user()}
			w.hostDir("d")
			w.hostFile("f")
			if os.Geteuid() == 0 {
				for _, name := range []string{"d", "f"} {
					require.NoError(t, os.Chown(s.path(name), int(w.c.UID), int(w.c.GID)))
				}
			}
			h, d := w.walk("f"), w.walk("d")
			_, _, err := w.f.Link(t.Context(), &w.c, h, d, "g")
			require.NoError(t, err)
			remount := func(flags uintptr) {
				if tt.want != nil {
					require.NoError(t, unix.Mount("", s.dir, "", unix.MS_REMOUNT|flags, ""))
				}
			}
			remount(unix.MS_RDONLY)
			_, _, err = w.f.Rename(t.Context(), &w.c, w.f.Root(), "f", d, "g")
			require.ErrorIs(t, err, tt.want)
			assert.Len(t, w.entry(h).Places, 2)
			remount(0)
			dir := map[string]vfs.Handle{"d/g": d, "f": w.f.Root()}[tt.gone]
			_, err = w.f.Remove(t.Context(), &w.c, dir, filepath.Base(tt.gone))
			require.NoError(t, err)
			w.reopen()
			assert.NoError(t, w.getattr(h), "it has its other name")
		})
	}
}

// TestTableLoses checks that an object moved to another directory by another
// process is stale until it is seen again, and then has its old handle.
func TestTableLoses(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostDir("d")
	w.hostDir("e/deep")
	w.hostFile("d/f")
	w.hostFile("e/deep/inside")
	h, deep, inside := w.walk("d", "f"), w.walk("e", "deep"), w.walk("e", "deep", "inside")
	w.hostMove("d/f", "e/f")
	w.hostMove("e/deep", "d/deep")
	w.reopen()
	for range 2 {
		assert.ErrorIs(t, w.getattr(h), unix.ESTALE)
		assert.ErrorIs(t, w.getattr(deep), unix.ESTALE)
		assert.ErrorIs(t, w.getattr(inside), unix.ESTALE)
	}
	assert.Empty(t, w.entry(h).Places, "the directory is not read again")
	assert.NotEmpty(t, w.entry(inside).Places, "its old place, in case the directory returns")
	assert.Equal(t, h, w.walk("e", "f"))
	require.NoError(t, w.getattr(h))
	assert.Equal(t, deep, w.walk("d", "deep"))
	require.NoError(t, w.getattr(inside))
	w.reopen()
	require.NoError(t, w.getattr(inside))
}

// TestTableReuse checks that the handles of removed files do not open new files
// with the same inode numbers.
func TestTableReuse(t *testing.T) {
	w := newTestFS(t, tableKind())
	seen := make(map[vfs.Handle]uint64)
	reused := 0
	for i := range 50 {
		name := fmt.Sprint("f", i)
		w.hostFile(name)
		h := w.walk(name)
		a, err := w.f.GetAttr(t.Context(), &w.c, h)
		require.NoError(t, err)
		for old, ino := range seen {
			require.NotEqual(t, old, h)
			if ino == a.FileID {
				reused++
				assert.ErrorIs(t, w.getattr(old), unix.ESTALE)
			}
		}
		require.NoError(t, w.getattr(h), "a stale handle does not affect the new file's")
		seen[h] = a.FileID
		require.NoError(t, os.Remove(w.s.path(name)))
	}
	t.Logf("%d inode numbers were reused", reused)
}

// TestTableGenerations checks that without generations of the file system, the
// table counts the objects born with one number in one instant.
func TestTableGenerations(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.f.handles.(*tableHandles).hasGeneration = false
	w.hostFile("f")
	fd, err := openPath(w.f.mount, "f")
	require.NoError(t, err)
	defer closeFD(fd)
	var st unix.Statx_t
	require.NoError(t, statFD(fd, &st))
	hs := w.f.handles
	first, err := hs.handleOf(fd, &st, 1, []byte("f"))
	require.NoError(t, err)
	again, err := hs.handleOf(fd, &st, 1, []byte("f"))
	require.NoError(t, err)
	assert.Equal(t, first, again)
	st.Nlink = 0
	gone, err := hs.removeName(fd, &st, handletable.Place{Dir: 1, Name: "f"})
	require.NoError(t, err)
	assert.Equal(t, first, gone)
	_, err = hs.openHandle(first)
	assert.ErrorIs(t, err, unix.ESTALE)
	st.Nlink = 1
	second, err := hs.handleOf(fd, &st, w.f.root.ino, []byte("f"))
	require.NoError(t, err)
	assert.NotEqual(t, first, second)
	_, err = hs.openHandle(first)
	assert.ErrorIs(t, err, unix.ESTALE)
	got, err := hs.openHandle(second)
	require.NoError(t, err)
	closeFD(got)
}

// TestTableLost checks that an empty table, as after the loss of the state
// directory, still finds objects in the directory that the handle names, if
// that directory is known.
func TestTableLost(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostDir("d")
	w.hostFile("f")
	w.hostFile("d/f")
	top, below := w.walk("f"), w.walk("d", "f")
	w.hostMove("f", "g")
	w.s.kill(t)
	require.NoError(t, os.Remove(filepath.Join(w.s.o.StateDir, handletable.FileName)))
	w.f = w.s.open(t)
	require.NoError(t, w.getattr(top))
	assert.Equal(t, "g", w.entry(top).Places[0].Name)
	assert.ErrorIs(t, w.getattr(below), unix.ESTALE)
	w.walk("d")
	require.NoError(t, w.getattr(below))
}

// TestTableCircle checks that moves by other processes do no harm if they make
// the table say that each of two directories is in the other.
func TestTableCircle(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostDir("a/b")
	a, b := w.walk("a"), w.walk("a", "b")
	w.hostMove("a/b", "b")
	w.hostMove("a", "b/a")
	assert.Equal(t, a, w.lookup(b, "a")) // the table still has b in a
	w.reopen()
	assert.ErrorIs(t, w.getattr(a), unix.ESTALE)
	assert.ErrorIs(t, w.getattr(b), unix.ESTALE)
	assert.Equal(t, b, w.walk("b"))
	require.NoError(t, w.getattr(a))
}

// TestTableMovesMeanwhile checks that a file's handle always works while the
// file moves between directories.
func TestTableMovesMeanwhile(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostDir("a")
	w.hostDir("b")
	w.hostFile("a/f")
	dirs := []vfs.Handle{w.walk("a"), w.walk("b")}
	h := w.walk("a", "f")
	su := vfs.Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				fd, err := w.f.handles.openHandle(h)
				if assert.NoError(t, err) {
					closeFD(fd)
				}
			}
		})
	}
	for i := range 60 {
		name := fmt.Sprint("f", i%3)
		from, to := dirs[i%2], dirs[(i+1)%2]
		last := "f"
		if i > 0 {
			last = fmt.Sprint("f", (i-1)%3)
		}
		_, _, err := w.f.Rename(t.Context(), &su, from, last, to, name)
		require.NoError(t, err)
	}
	close(stop)
	wg.Wait()
}

// TestTableParent checks ".." of a directory whose own place is not in the
// table.
func TestTableParent(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostDir("a/b/c")
	c := w.walk("a", "b", "c")
	w.hostDir("x/y")
	w.hostMove("a/b/c", "x/y/c")
	y := w.lookup(c, "..")
	assert.Equal(t, y, w.walk("x", "y"))
	w.reopen()
	require.NoError(t, w.getattr(y))
	require.ErrorIs(t, w.getattr(c), unix.ESTALE)
}

// TestKindsDiffer checks that a handle of the other kind is stale, not bad: the
// daemon may have been root, or not, before.
func TestKindsDiffer(t *testing.T) {
	w := newTestFS(t, tableKind())
	h, _ := vfs.NewHandle([]byte{kindKernel, 1, 1, 2, 3, 4, 5, 6, 7, 8})
	assert.ErrorIs(t, w.getattr(h), unix.ESTALE)
	for _, b := range [][]byte{nil, {kindKernel}, {kindTable}, {1}, make([]byte, 1+handletable.IDLen)} {
		h, _ := vfs.NewHandle(b)
		assert.ErrorIs(t, w.getattr(h), vfs.ErrBadHandle)
	}
	k := &kernelHandles{mount: w.f.mount}
	_, err := k.openHandle(w.f.Root())
	assert.ErrorIs(t, err, unix.ESTALE)
	for _, b := range [][]byte{nil, {kindKernel}, {kindKernel, 1}, {1, 0, 0, 0, 1, 1}} {
		h, _ := vfs.NewHandle(b)
		_, err := k.openHandle(h)
		assert.ErrorIs(t, err, vfs.ErrBadHandle)
	}
}

// TestTableSynced checks that a new name is on stable storage before the file
// has the name, and other new entries a tick later.
func TestTableSynced(t *testing.T) {
	o := tableKind()
	o.IdleTime = time.Hour
	w := newTestFS(t, o)
	tab := w.f.handles.(*tableHandles).table
	var syncs []bool // whether the file had its new name
	tab.SetFsync(func(f *os.File) error {
		_, err := os.Lstat(w.s.path("g"))
		syncs = append(syncs, err == nil)
		return f.Sync()
	})
	w.hostFile("f")
	w.walk("f")
	w.f.syncHandles()
	w.f.syncHandles()
	require.Equal(t, []bool{false}, syncs)
	root := w.f.Root()
	rename := func(from, to string) error {
		_, _, err := w.f.Rename(t.Context(), &w.c, root, from, root, to)
		return err
	}
	require.NoError(t, rename("f", "g"))
	assert.Equal(t, []bool{false, false}, syncs)
	w.f.syncHandles()
	assert.Equal(t, []bool{false, false, true}, syncs)
	tab.SetFsync(func(*os.File) error { return unix.EIO })
	assert.ErrorIs(t, rename("g", "h"), unix.EIO)
	assert.FileExists(t, w.s.path("g"))
	w.f.syncHandles()
	tab.SetFsync(nil)
	assert.NoError(t, rename("g", "h"))
}

// TestTableUnknown checks that a handle that is not in the table causes a
// search of its directory only once in a while, and not with every call.
func TestTableUnknown(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostDir("d")
	w.hostFile("f")
	h := w.walk("f")
	require.NoError(t, w.f.Close())
	require.NoError(t, os.RemoveAll(w.s.o.StateDir))
	w.hostMove("f", "d/f")
	w.f = w.s.open(t)
	assert.ErrorIs(t, w.getattr(h), unix.ESTALE)
	w.hostMove("d/f", "f")
	assert.ErrorIs(t, w.getattr(h), unix.ESTALE, "the directory was read again")
	assert.Equal(t, h, w.walk("f"))
	w.reopen()
	assert.NoError(t, w.getattr(h))

	a := w.f.handles.(*tableHandles).absent
	for i := range uint64(maxAbsent + 10) {
		a.addID(handletable.ID{Ino: i})
	}
	assert.LessOrEqual(t, len(a.until), maxAbsent)
	id := handletable.ID{Ino: maxAbsent + 9}
	assert.True(t, a.isAbsent(id))
	a.until[id] = time.Now()
	assert.False(t, a.isAbsent(id), "for ever")
}
