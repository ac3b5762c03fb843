//go:build linux

package posix

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/filesync"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// A syncRecorder replaces the kernel's syncs, and records them.
type syncRecorder struct {
	mu  sync.Mutex
	log []string // "fsync" and inode number, or "syncfs"

	// answer is the result of a sync; nil means success.
	answer func(call string, fd int) error
}

// syncTestFS returns a testFS with a syncRecorder. Its file system never counts as one in memory.
// It has the files f, old and link, a symbolic link, and the directories d, empty and e.
func syncTestFS(t *testing.T) (*testFS, *syncRecorder) {
	checkCleanup(t)
	s := newExportedDir(t, "/dev/shm", tableKind())
	w := &testFS{t, s, s.open(t), user()}
	for _, name := range []string{"d", "e", "empty"} {
		w.hostDir(name)
	}
	for _, name := range []string{"f", "old", "gone", "d/g"} {
		w.hostFile(name)
		require.NoError(t, os.Chmod(s.path(name), 0o666))
	}
	require.NoError(t, os.Symlink("target", s.path("link")))
	if os.Geteuid() == 0 {
		for _, name := range []string{"d", "e", "empty", "f", "old", "gone", "d/g", "link"} {
			require.NoError(t, os.Lchown(s.path(name), int(w.c.UID), int(w.c.GID)))
		}
	}
	w.f.traits.volatile = false
	tp := new(syncRecorder)
	d := &w.f.disk
	d.Fsync, d.Fdatasync, d.Syncfs = tp.call("fsync"), tp.call("fdatasync"), tp.call("syncfs")
	return w, tp
}

func (tp *syncRecorder) call(name string) func(fd int) error {
	return func(fd int) error {
		what := name
		if name != "syncfs" {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				return err
			}
			what = fmt.Sprint(name, " ", st.Ino)
		}
		tp.mu.Lock()
		tp.log = append(tp.log, what)
		answer := tp.answer
		tp.mu.Unlock()
		if answer != nil {
			return answer(name, fd)
		}
		return nil
	}
}

// setAnswer sets the result of all later syncs.
func (tp *syncRecorder) setAnswer(answer func(call string, fd int) error) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.answer = answer
}

// takeCalls returns the distinct syncs since the last call, with names in place of inode numbers.
func (tp *syncRecorder) takeCalls(w *testFS) []string {
	names := map[string]string{}
	require.NoError(w, filepath.WalkDir(w.s.dir, func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		name, _ := filepath.Rel(w.s.dir, path)
		if ino := fmt.Sprint(st.Ino); names[ino] == "" {
			names[ino] = name
		}
		return err
	}))
	tp.mu.Lock()
	defer tp.mu.Unlock()
	out := []string{}
	for _, entry := range tp.log {
		if call, ino, ok := strings.Cut(entry, " "); ok {
			entry = call + " " + names[ino]
		}
		out = append(out, entry)
	}
	tp.log = nil
	slices.Sort(out)
	return slices.Compact(out)
}

// TestSyncs checks that each change is on stable storage when the call returns,
// with the directories of all added or removed names. A call that changes
// nothing syncs nothing.
func TestSyncs(t *testing.T) {
	mode, size := uint32(0o640), uint64(3)
	touch := vfs.SetAttr{MtimeHow: vfs.SetToServer, AtimeHow: vfs.SetToServer}
	uid := uint32(os.Geteuid())
	const dir, file, all = "fsync .", "fsync f", "syncfs"
	for name, row := range map[string]struct {
		do   func(w *testFS) error
		want []string
	}{
		"CREATE": {func(w *testFS) error {
			_, err := w.f.Create(w.Context(), &w.c, w.f.Root(), "new", vfs.CreateHow{})
			return err
		}, []string{dir, "fsync new"}},
		"CREATE guarded": {func(w *testFS) error {
			_, err := w.f.Create(w.Context(), &w.c, w.walk("d"), "new", vfs.CreateHow{Mode: vfs.Guarded})
			return err
		}, []string{"fsync d", "fsync d/new"}},
		"CREATE exclusive": {func(w *testFS) error {
			_, err := w.f.Create(w.Context(), &w.c, w.f.Root(), "new", vfs.CreateHow{Mode: vfs.Exclusive, Verifier: 7})
			return err
		}, []string{dir, "fsync new"}},
		"CREATE of an existing file": {func(w *testFS) error {
			_, err := w.f.Create(w.Context(), &w.c, w.f.Root(), "f", vfs.CreateHow{Attr: vfs.SetAttr{Size: &size}})
			return err
		}, []string{dir, file}},
		"MKDIR": {func(w *testFS) error {
			_, err := w.f.Mkdir(w.Context(), &w.c, w.f.Root(), "new", vfs.SetAttr{})
			return err
		}, []string{dir, "fsync new"}},
		"SYMLINK": {func(w *testFS) error {
			_, err := w.f.Symlink(w.Context(), &w.c, w.f.Root(), "new", "t", vfs.SetAttr{})
			return err
		}, []string{dir}},
		"MKNOD": {func(w *testFS) error {
			_, err := w.f.Mknod(w.Context(), &w.c, w.f.Root(), "new", vfs.TypeFIFO, vfs.Dev{}, vfs.SetAttr{})
			return err
		}, []string{dir}},
		"MKNOD with times": {func(w *testFS) error {
			_, err := w.f.Mknod(w.Context(), &w.c, w.f.Root(), "new", vfs.TypeFIFO, vfs.Dev{}, touch)
			return err
		}, []string{dir, all}},
		"MKNOD with a mode that umask reduces": {func(w *testFS) error {
			old := unix.Umask(0o777)
			defer unix.Umask(old)
			_, err := w.f.Mknod(w.Context(), &w.c, w.f.Root(), "new", vfs.TypeFIFO, vfs.Dev{}, vfs.SetAttr{Mode: &mode})
			return err
		}, []string{dir, all}},
		"CREATE of a link": {func(w *testFS) error {
			_, err := w.f.Create(w.Context(), &w.c, w.f.Root(), "link", vfs.CreateHow{})
			return err
		}, []string{dir}},
		"REMOVE": {func(w *testFS) error {
			_, err := w.f.Remove(w.Context(), &w.c, w.f.Root(), "gone")
			return err
		}, []string{dir}},
		"RMDIR": {func(w *testFS) error {
			_, err := w.f.Rmdir(w.Context(), &w.c, w.f.Root(), "empty")
			return err
		}, []string{dir}},
		"RENAME": {func(w *testFS) error {
			_, _, err := w.f.Rename(w.Context(), &w.c, w.walk("d"), "g", w.walk("e"), "h")
			return err
		}, []string{"fsync d", "fsync e"}},
		"RENAME within": {func(w *testFS) error {
			_, _, err := w.f.Rename(w.Context(), &w.c, w.f.Root(), "gone", w.f.Root(), "old")
			return err
		}, []string{dir}},
		"LINK": {func(w *testFS) error {
			_, _, err := w.f.Link(w.Context(), &w.c, w.walk("f"), w.walk("d"), "hard")
			return err
		}, []string{"fsync d", "fsync d/hard"}},
		"SETATTR mode": {func(w *testFS) error {
			_, err := w.f.SetAttr(w.Context(), &w.c, w.walk("f"), vfs.SetAttr{Mode: &mode}, nil)
			return err
		}, []string{file}},
		"SETATTR size": {func(w *testFS) error {
			_, err := w.f.SetAttr(w.Context(), &w.c, w.walk("f"), vfs.SetAttr{Size: &size}, nil)
			return err
		}, []string{file}},
		"SETATTR of a directory": {func(w *testFS) error {
			_, err := w.f.SetAttr(w.Context(), &w.c, w.walk("d"), touch, nil)
			return err
		}, []string{"fsync d"}},
		"SETATTR of a link": {func(w *testFS) error {
			_, err := w.f.SetAttr(w.Context(), &w.c, w.walk("link"), touch, nil)
			return err
		}, []string{all}},
		"SETACL": {func(w *testFS) error {
			_, err := w.f.SetACL(w.Context(), &w.c, w.walk("f"), &plainACL, nil)
			return err
		}, []string{file}},
		"WRITE unstable": {func(w *testFS) error { return w.write(&w.c, vfs.Unstable) }, []string{}},
		"WRITE data":     {func(w *testFS) error { return w.write(&w.c, vfs.DataSync) }, []string{"fdatasync f"}},
		"WRITE file":     {func(w *testFS) error { return w.write(&w.c, vfs.FileSync) }, []string{file}},
		"COMMIT":         {func(w *testFS) error { return w.commit(&w.c) }, []string{file}},
		"READ": {func(w *testFS) error {
			_, _, _, err := w.f.Read(w.Context(), &vfs.Cred{UID: uid}, w.walk("f"), make([]byte, 1), 0)
			return err
		}, []string{}},
		"READDIR": {func(w *testFS) error {
			_, _, _, err := w.f.ReadDir(w.Context(), &w.c, w.f.Root(), 0, 0, true, func(*vfs.Entry) bool { return true })
			return err
		}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			w, tp := syncTestFS(t)
			require.NoError(t, row.do(w))
			assert.Equal(t, row.want, tp.takeCalls(w))

			// A failure is returned, and all clients must write unstable data
			// again.
			if len(row.want) == 0 {
				return
			}
			w, tp = syncTestFS(t)
			before := w.f.WriteVerifier()
			tp.setAnswer(func(string, int) error { return unix.ENOSPC })
			require.ErrorIs(t, row.do(w), unix.ENOSPC)
			assert.NotEqual(t, before, w.f.WriteVerifier())
		})
	}
}

// write writes to f as c; the owner permits everyone to.
func (w *testFS) write(c *vfs.Cred, how vfs.Stable) error {
	_, done, _, err := w.f.Write(w.Context(), c, w.walk("f"), []byte("x"), 0, how)
	if err == nil {
		assert.Equal(w, how, done)
	}
	return err
}

func (w *testFS) commit(c *vfs.Cred) error {
	_, err := w.f.Commit(w.Context(), c, w.walk("f"), 0, 0)
	return err
}

// TestCommitRights checks that a caller who has lost the right to write has nothing
// synced by COMMIT.
func TestCommitRights(t *testing.T) {
	vfstest.NeedRoot(t)
	w, tp := syncTestFS(t)
	c := vfs.Cred{UID: 70001, GID: 70001}
	require.NoError(t, w.write(&c, vfs.Unstable))
	require.NoError(t, os.Chmod(w.s.path("f"), 0o600))
	assert.Equal(t, unix.EACCES, w.commit(&c))
	assert.Empty(t, tp.takeCalls(w))
	require.NoError(t, os.Chmod(w.s.path("f"), 0o666))
	assert.NoError(t, w.commit(&c))
	assert.Equal(t, []string{"fsync f"}, tp.takeCalls(w))
}

// TestCommitSyncsOthers checks that COMMIT covers the whole file, including
// data written by other callers.
func TestCommitSyncsOthers(t *testing.T) {
	w, tp := syncTestFS(t)
	b := user()
	if os.Geteuid() == 0 {
		b = vfs.Cred{UID: 70001, GID: 70001}
	}
	require.NoError(t, w.write(&w.c, vfs.Unstable))
	require.Empty(t, tp.takeCalls(w))
	require.NoError(t, w.commit(&b))
	assert.Equal(t, []string{"fsync f"}, tp.takeCalls(w))

	before := w.f.WriteVerifier()
	tp.setAnswer(func(string, int) error { return unix.EIO })
	require.NoError(t, w.write(&w.c, vfs.Unstable))
	assert.ErrorIs(t, w.commit(&b), unix.EIO)
	assert.NotEqual(t, before, w.f.WriteVerifier(), "earlier data must be written again")
	tp.setAnswer(nil)
}

// TestCommitAsksWriters checks COMMIT of a file whose data was lost, if only
// the descriptor that wrote it can learn of that: another process has asked the
// kernel before COMMIT opened the file. The writer's descriptor may belong to
// another caller, or wait to be closed. The new verifier tells all writers.
func TestCommitAsksWriters(t *testing.T) {
	for name, tt := range map[string]struct {
		by    vfs.Cred
		leave func(w *testFS, o *object, fl *file) (end func())
	}{
		"of another caller": {vfs.Cred{UID: 70001, GID: 70001}, func(w *testFS, _ *object, _ *file) func() {
			vfstest.NeedRoot(w)
			return func() {}
		}},
		"taken from the object": {user(), func(w *testFS, o *object, fl *file) func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			require.Equal(w, []*file{fl}, o.takeFiles(func(*file) bool { return true }))
			return func() { w.f.cache.closeFile(fl) }
		}},
		"taken from the cache": {user(), func(w *testFS, o *object, _ *file) func() {
			c := &w.f.cache
			c.mu.Lock()
			defer c.mu.Unlock()
			require.Zero(w, o.refs.Load())
			c.removeLocked(o)
			return func() { c.closeObject(o) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, tp := syncTestFS(t)
			require.NoError(t, w.write(&w.c, vfs.Unstable))
			o, err := w.f.getObject(w.walk("f"))
			require.NoError(t, err)
			w.f.putObject(o)
			require.Len(t, o.files, 1)
			writer := o.files[0]
			before, told := w.f.WriteVerifier(), false
			tp.setAnswer(func(_ string, fd int) error {
				if fd != writer.FD || told {
					return nil
				}
				told = true
				return unix.EIO
			})
			end := tt.leave(w, o, writer)
			require.NoError(t, w.commit(&tt.by))
			assert.True(t, told, "the writer's descriptor is not asked")
			assert.NotEqual(t, before, w.f.WriteVerifier())
			end()
			assert.True(t, w.f.disk.IsIdle())
			tp.setAnswer(nil)
		})
	}
}

// TestCommitHoldsWriters checks that no descriptor is closed while a COMMIT by
// another caller syncs it, and that taking a lease does not wait for that.
func TestCommitHoldsWriters(t *testing.T) { synctest.Test(t, testCommitHoldsWriters) }

func testCommitHoldsWriters(t *testing.T) {
	w, tp := syncTestFS(t)
	require.NoError(t, w.write(&w.c, vfs.Unstable))
	o, err := w.f.getObject(w.walk("f"))
	require.NoError(t, err)
	w.f.putObject(o)
	writer := o.files[0]
	begun, goOn := make(chan struct{}), make(chan struct{})
	tp.setAnswer(func(_ string, fd int) error {
		if fd == writer.FD {
			close(begun)
			<-goOn
		}
		return nil
	})
	by, err := os.Open(w.s.path("f"))
	require.NoError(t, err)
	defer by.Close()
	committed := runAsync(func() { assert.NoError(t, w.f.disk.SyncInode(&filesync.File{FD: int(by.Fd()), Ino: o.ino})) })
	receiveSoon(t, begun, "the writer's descriptor is not synced")
	assert.ErrorIs(t, w.f.closeWriters(o), unix.EAGAIN)
	swept := runAsync(func() {
		for range idleTicks {
			w.f.cache.sweepAll()
		}
	})
	synctest.Wait()
	assertNoReceive(t, swept, "the descriptor is closed")
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(writer.FD, &st))
	assert.Equal(t, o.ino, st.Ino)
	close(goOn)
	receiveSoon(t, committed, "COMMIT does not end")
	receiveSoon(t, swept, "the sweep does not end")
	assert.True(t, w.f.disk.IsIdle())
	tp.setAnswer(nil)
}

// TestSyncOfRemoved checks that a concurrently removed object counts as no loss, and that no client
// must write again.
func TestSyncOfRemoved(t *testing.T) {
	w, tp := syncTestFS(t)
	before := w.f.WriteVerifier()
	for _, name := range []string{"f", "empty", "link"} {
		o, err := w.f.getObject(w.walk(name))
		require.NoError(t, err)
		require.NoError(t, os.Remove(w.s.path(name)))
		assert.NoError(t, w.f.syncObject(o), name)
		w.f.putObject(o)
	}
	assert.Empty(t, tp.takeCalls(w))
	assert.Equal(t, before, w.f.WriteVerifier())
}

// TestSyncWithoutOpen checks that an object that the daemon cannot open now is
// synced together with the whole file system.
func TestSyncWithoutOpen(t *testing.T) {
	w, tp := syncTestFS(t)
	before := w.f.WriteVerifier()
	o, err := w.f.getObject(w.walk("f"))
	require.NoError(t, err)
	defer w.f.putObject(o)
	giveBack := noFDs(t, 0)
	err = w.f.syncObject(o)
	giveBack()
	require.NoError(t, err)
	assert.Equal(t, []string{"syncfs"}, tp.takeCalls(w))
	assert.Equal(t, before, w.f.WriteVerifier())
}

// TestSyncAgain checks that an interrupted sync is repeated, and that the whole
// file system is synced if it cannot sync single files.
func TestSyncAgain(t *testing.T) {
	w, tp := syncTestFS(t)
	before := w.f.WriteVerifier()
	left := 2
	tp.setAnswer(func(string, int) error {
		if left--; left >= 0 {
			return unix.EINTR
		}
		return nil
	})
	require.NoError(t, w.commit(&w.c))
	assert.Len(t, tp.log, 3)
	tp.takeCalls(w)

	tp.setAnswer(func(call string, _ int) error {
		if call == "syncfs" {
			return nil
		}
		return unix.EINVAL
	})
	require.NoError(t, w.commit(&w.c))
	assert.Equal(t, []string{"fsync f", "syncfs"}, tp.takeCalls(w))
	assert.Equal(t, before, w.f.WriteVerifier())
	tp.setAnswer(nil)
}

// TestSyncWaits checks that COMMIT does not return before the verifier has changed, if another
// descriptor, perhaps one being closed, was the only one to see lost data.
func TestSyncWaits(t *testing.T) { synctest.Test(t, testSyncWaits) }

func testSyncWaits(t *testing.T) {
	w, tp := syncTestFS(t)
	require.NoError(t, w.write(&w.c, vfs.Unstable))
	before := w.f.WriteVerifier()
	closing, fail := make(chan struct{}), make(chan struct{})
	committing := make(chan struct{})
	first := true
	tp.setAnswer(func(string, int) error {
		tp.mu.Lock()
		mine := first
		first = false
		tp.mu.Unlock()
		if !mine {
			close(committing)
			return nil
		}
		close(closing)
		<-fail
		return unix.EIO
	})
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		for range idleTicks { // the object leaves the cache too
			w.f.cache.sweepAll()
		}
	}()
	receiveSoon(t, closing, "no file is closed")
	after := make(chan uint64, 1)
	go func() {
		assert.NoError(t, w.commit(&w.c))
		after <- w.f.WriteVerifier()
	}()
	receiveSoon(t, committing, "COMMIT does not sync")
	synctest.Wait()
	assertNoReceive(t, after, "COMMIT does not wait")
	close(fail)
	assert.NotEqual(t, before, receiveSoon(t, after, "COMMIT waits still"))
	receiveSoon(t, swept, "the sweep does not end")
	assert.True(t, w.f.disk.IsIdle())
	tp.setAnswer(nil)
}

// TestSyncBesideFailure checks two syncs through one descriptor, of which only one reports lost
// data. The other WRITE fails too, and the other COMMIT returns the new verifier. Descriptors of
// several callers may be duplicates of one, if the file has a lease for writing.
func TestSyncBesideFailure(t *testing.T) {
	write := func(w *testFS, c *vfs.Cred) error { return w.write(c, vfs.FileSync) }
	t.Run("WRITE", func(t *testing.T) { testBesideFailure(t, write, user(), unix.EIO) })
	t.Run("COMMIT", func(t *testing.T) { testBesideFailure(t, (*testFS).commit, user(), nil) })
	t.Run("WRITE of another caller", func(t *testing.T) {
		vfstest.NeedRoot(t)
		testBesideFailure(t, write, vfs.Cred{UID: 70001, GID: 70001}, unix.EIO)
	})
}

// testBesideFailure makes two concurrent calls by different callers; the second sees lost data.
func testBesideFailure(t *testing.T, call func(*testFS, *vfs.Cred) error, another vfs.Cred, want error) {
	synctest.Test(t, func(t *testing.T) {
		w, tp := syncTestFS(t)
		require.NoError(t, w.write(&w.c, vfs.Unstable))
		before := w.f.WriteVerifier()
		begun, goOn := make(chan struct{}), make(chan struct{})
		telling, told := make(chan struct{}), make(chan struct{})
		tp.setAnswer(func(string, int) error {
			close(begun)
			<-goOn
			return nil
		})
		newVerf := w.f.newVerf
		w.f.newVerf = func() uint64 {
			close(telling)
			<-told
			return newVerf()
		}
		first, after := make(chan error, 1), make(chan uint64, 1)
		go func() {
			first <- call(w, &w.c)
			after <- w.f.WriteVerifier()
		}()
		receiveSoon(t, begun, "no file is synced")
		tp.setAnswer(func(string, int) error { return unix.EIO })
		second := make(chan error, 1)
		go func() { second <- call(w, &another) }()
		receiveSoon(t, telling, "the failure is not reported")
		close(goOn)
		synctest.Wait()
		assertNoReceive(t, first, "the sync does not wait")
		close(told)
		assert.ErrorIs(t, receiveSoon(t, second, "no answer"), unix.EIO)
		if want == nil {
			require.NoError(t, receiveSoon(t, first, "the sync waits still"))
		} else {
			require.ErrorIs(t, receiveSoon(t, first, "the sync waits still"), want)
		}
		assert.NotEqual(t, before, receiveSoon(t, after, "no verifier"))
		assert.True(t, w.f.disk.IsIdle())
		tp.setAnswer(nil)
	})
}
