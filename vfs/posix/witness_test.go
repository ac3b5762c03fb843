//go:build linux

package posix

import (
	"context"
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/handletable"
)

// A fakeNameCreator changes names in two directories of an FS, and returns what is said to be
// atomic.
type fakeNameCreator struct {
	t    *testing.T
	ctx  context.Context
	f    *FS
	c    vfs.Cred
	d, e vfs.Handle
}

func newFakeNameCreator(t *testing.T, base string) (*fakeNameCreator, *exportedDir) {
	checkCleanup(t)
	s := newExportedDir(t, base, Options{})
	require.NoError(t, os.Mkdir(s.path("d"), 0o777))
	require.NoError(t, os.Mkdir(s.path("e"), 0o777))
	n := &fakeNameCreator{t: t, ctx: vfs.WithAtomic(t.Context()), f: s.open(t), c: vfs.Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}}
	for name, to := range map[string]*vfs.Handle{"d": &n.d, "e": &n.e} {
		h, _, _, err := n.f.Lookup(t.Context(), &n.c, n.f.Root(), name)
		require.NoError(t, err)
		*to = h
	}
	return n, s
}

func (n *fakeNameCreator) create(name string) bool {
	n.t.Helper()
	made, err := n.f.Create(n.ctx, &n.c, n.d, name, vfs.CreateHow{Mode: vfs.Guarded})
	require.NoError(n.t, err)
	return made.Dir.Atomic
}

// overflow makes the kernel lose reports, by one that the witness reads next.
func (n *fakeNameCreator) overflow() {
	read := n.f.witness.read
	n.f.witness.read = func(_ int, b []byte) (int, error) {
		n.f.witness.read = read
		clear(b[:unix.SizeofInotifyEvent])
		binary.NativeEndian.PutUint32(b, ^uint32(0))
		binary.NativeEndian.PutUint32(b[inotifyMask:], unix.IN_Q_OVERFLOW)
		return unix.SizeofInotifyEvent, nil
	}
}

func (n *fakeNameCreator) remove(name string) bool {
	n.t.Helper()
	w, err := n.f.Remove(n.ctx, &n.c, n.d, name)
	require.NoError(n.t, err)
	return w.Atomic
}

func (n *fakeNameCreator) rename(from vfs.Handle, name string, to vfs.Handle, next string) (source, target bool) {
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
			n, s := newFakeNameCreator(t, base)
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
				"a new file":   func() error { return os.WriteFile(s.path("d", "other"), nil, 0o600) },
				"another name": func() error { return os.Rename(s.path("d", "other"), s.path("d", "else")) },
				"mode":         func() error { return os.Chmod(s.path("d"), 0o775) },
				"lost reports": func() error { n.overflow(); return nil },
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

// TestAtomicUnasked checks that calls without WithAtomic cause no work, and that a directory's
// watch is removed with its object.
func TestAtomicUnasked(t *testing.T) {
	n, _ := newFakeNameCreator(t, "/dev/shm")
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
		n.f.cache.sweepAll()
	}
	n.f.witness.mu.Lock()
	defer n.f.witness.mu.Unlock()
	assert.Empty(t, n.f.witness.dirs)
}

// brokenHandles are handles that call meddle between a rename and the reading of the
// attributes from after it.
type brokenHandles struct {
	handles
	beforeEndMove func()
}

func (h *brokenHandles) endMove(fd int, st *unix.Statx_t, from, not handletable.Place) {
	h.beforeEndMove()
	h.handles.endMove(fd, st, from, not)
}

// TestAtomicMeddled checks changes by other processes just after a rename from another
// directory, or just before, of which the kernel reports none of their own.
func TestAtomicMeddled(t *testing.T) {
	for _, base := range []string{"/dev/shm", "/tmp"} {
		t.Run(base, func(t *testing.T) {
			n, s := newFakeNameCreator(t, base)
			require.NoError(t, os.Mkdir(s.path("outside"), 0o777))
			handles := &brokenHandles{handles: n.f.handles}
			n.f.handles = handles
			file := func(path string) { require.NoError(t, os.WriteFile(path, nil, 0o600)) }
			for _, tt := range []struct {
				what   string
				change func() error
				want   bool
			}{
				{"nothing", func() error { return nil }, true},
				{"another file with the name", func() error { return os.Rename(s.path("outside", "y"), s.path("e", "b")) }, false},
				{"mtime", func() error {
					return unix.UtimesNanoAt(unix.AT_FDCWD, s.path("e"), []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: 1}}, 0)
				}, false},
				{"atime", func() error {
					time.Sleep(11 * time.Millisecond) // a tick
					return unix.UtimesNanoAt(unix.AT_FDCWD, s.path("e"), []unix.Timespec{{Sec: 1}, {Nsec: unix.UTIME_OMIT}}, 0)
				}, false},
				{"the directory's name", func() error {
					time.Sleep(11 * time.Millisecond)
					return os.Rename(s.path("e"), s.path("outside", "e"))
				}, false},
			} {
				handles.beforeEndMove = func() {}
				file(s.path("d", "first"))
				n.rename(n.d, "first", n.e, "first")
				file(s.path("d", "x"))
				file(s.path("outside", "y"))
				handles.beforeEndMove = func() { require.NoError(t, tt.change(), tt.what) }
				_, target := n.rename(n.d, "x", n.e, "b")
				assert.Equal(t, tt.want, target, tt.what)
			}
		})
	}
}

// TestAtomicUnwatched checks directories that the witness cannot watch: a rename from one is not
// told from another one to the same name just before, and changes do not open them.
func TestAtomicUnwatched(t *testing.T) {
	n, s := newFakeNameCreator(t, "/dev/shm")
	assert.False(t, n.create("a"))
	assert.True(t, n.create("b"))
	n.f.witness.mu.Lock()
	for wd := int32(-1); len(n.f.witness.dirs) < maxWatched; wd-- {
		n.f.witness.dirs[wd] = new(watchedDir)
	}
	n.f.witness.mu.Unlock()
	opens, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	require.NoError(t, err)
	defer closeFD(opens)
	_, err = unix.InotifyAddWatch(opens, s.path("e"), unix.IN_OPEN)
	require.NoError(t, err)
	for range 2 {
		_, err = n.f.Mkdir(n.ctx, &n.c, n.e, "x", vfs.SetAttr{})
		require.NoError(t, err)
		_, err = n.f.Rmdir(n.ctx, &n.c, n.e, "x")
		require.NoError(t, err)
	}
	_, err = unix.Read(opens, make([]byte, 4096))
	assert.Equal(t, unix.EAGAIN, err, "the directory was opened")

	require.NoError(t, os.Mkdir(s.path("outside"), 0o777))
	for _, path := range []string{s.path("e", "x"), s.path("d", "x"), s.path("outside", "y")} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	n.create("last")
	calls := 0
	n.f.openNamed = func(dir int, name string) (int, error) {
		fd, err := openPath(dir, name)
		if calls++; calls == 2 {
			require.NoError(t, os.Rename(s.path("outside", "y"), s.path("d", "x")))
		}
		return fd, err
	}
	_, target := n.rename(n.e, "x", n.d, "x")
	assert.Equal(t, 2, calls)
	assert.False(t, target)
}

// TestManyWitnesses checks that an FS does without a witness if others have one, and that a closed
// one frees its place.
func TestManyWitnesses(t *testing.T) {
	before := witnesses.Load()
	n, _ := newFakeNameCreator(t, "/dev/shm")
	witnesses.Store(maxWitnesses)
	n.create("a")
	assert.False(t, n.create("b"))
	assert.Zero(t, n.f.witness.fd)
	witnesses.Store(before)
	n.create("c")
	assert.True(t, n.create("d"))
	assert.Equal(t, before+1, witnesses.Load())
	require.NoError(t, n.f.Close())
	assert.Equal(t, before, witnesses.Load())
}
