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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// A tap replaces the kernel's syncs, and records them.
type tap struct {
	mu  sync.Mutex
	log []string // "fsync" and inode number, or "syncfs"

	// answer is the result of a sync; nil means success.
	answer func(call string, fd int) error
}

// tapWorld returns a world with a tap. Its file system never counts as one in
// memory. The world has the files f, old and link, a symbolic link, and the
// directories d, empty and e.
func tapWorld(t *testing.T) (*world, *tap) {
	clean(t)
	s := newSite(t, "/dev/shm", tableKind())
	w := &world{t, s, s.open(t), user()}
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
	w.f.volatile = false
	tp := new(tap)
	d := &w.f.disk
	d.fsync, d.fdatasync, d.syncfs = tp.call("fsync"), tp.call("fdatasync"), tp.call("syncfs")
	return w, tp
}

func (tp *tap) call(name string) func(fd int) error {
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

// say sets the result of all later syncs.
func (tp *tap) say(answer func(call string, fd int) error) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	tp.answer = answer
}

// taken returns the distinct syncs since the last call, with the names of the
// world in place of inode numbers.
func (tp *tap) taken(w *world) []string {
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
		do   func(w *world) error
		want []string
	}{
		"CREATE": {func(w *world) error {
			_, err := w.f.Create(w.Context(), &w.c, w.f.Root(), "new", vfs.CreateHow{})
			return err
		}, []string{dir, "fsync new"}},
		"CREATE guarded": {func(w *world) error {
			_, err := w.f.Create(w.Context(), &w.c, w.walk("d"), "new", vfs.CreateHow{Mode: vfs.Guarded})
			return err
		}, []string{"fsync d", "fsync d/new"}},
		"CREATE exclusive": {func(w *world) error {
			_, err := w.f.Create(w.Context(), &w.c, w.f.Root(), "new", vfs.CreateHow{Mode: vfs.Exclusive, Verifier: 7})
			return err
		}, []string{dir, "fsync new"}},
		"CREATE of an existing file": {func(w *world) error {
			_, err := w.f.Create(w.Context(), &w.c, w.f.Root(), "f", vfs.CreateHow{Attr: vfs.SetAttr{Size: &size}})
			return err
		}, []string{dir, file}},
		"MKDIR": {func(w *world) error {
			_, err := w.f.Mkdir(w.Context(), &w.c, w.f.Root(), "new", vfs.SetAttr{})
			return err
		}, []string{dir, "fsync new"}},
		"SYMLINK": {func(w *world) error {
			_, err := w.f.Symlink(w.Context(), &w.c, w.f.Root(), "new", "t", vfs.SetAttr{})
			return err
		}, []string{dir}},
		"MKNOD": {func(w *world) error {
			_, err := w.f.Mknod(w.Context(), &w.c, w.f.Root(), "new", vfs.TypeFIFO, vfs.Dev{}, vfs.SetAttr{})
			return err
		}, []string{dir}},
		"MKNOD with times": {func(w *world) error {
			_, err := w.f.Mknod(w.Context(), &w.c, w.f.Root(), "new", vfs.TypeFIFO, vfs.Dev{}, touch)
			return err
		}, []string{dir, all}},
		"MKNOD with a mode that umask reduces": {func(w *world) error {
			old := unix.Umask(0o777)
			defer unix.Umask(old)
			_, err := w.f.Mknod(w.Context(), &w.c, w.f.Root(), "new", vfs.TypeFIFO, vfs.Dev{}, vfs.SetAttr{Mode: &mode})
			return err
		}, []string{dir, all}},
		"CREATE of a link": {func(w *world) error {
			_, err := w.f.Create(w.Context(), &w.c, w.f.Root(), "link", vfs.CreateHow{})
			return err
		}, []string{dir}},
		"REMOVE": {func(w *world) error {
			_, err := w.f.Remove(w.Context(), &w.c, w.f.Root(), "gone")
			return err
		}, []string{dir}},
		"RMDIR": {func(w *world) error {
			_, err := w.f.Rmdir(w.Context(), &w.c, w.f.Root(), "empty")
			return err
		}, []string{dir}},
		"RENAME": {func(w *world) error {
			_, _, err := w.f.Rename(w.Context(), &w.c, w.walk("d"), "g", w.walk("e"), "h")
			return err
		}, []string{"fsync d", "fsync e"}},
		"RENAME within": {func(w *world) error {
			_, _, err := w.f.Rename(w.Context(), &w.c, w.f.Root(), "gone", w.f.Root(), "old")
			return err
		}, []string{dir}},
		"LINK": {func(w *world) error {
			_, _, err := w.f.Link(w.Context(), &w.c, w.walk("f"), w.walk("d"), "hard")
			return err
		}, []string{"fsync d", "fsync d/hard"}},
		"SETATTR mode": {func(w *world) error {
			_, err := w.f.SetAttr(w.Context(), &w.c, w.walk("f"), vfs.SetAttr{Mode: &mode}, nil)
			return err
		}, []string{file}},
		"SETATTR size": {func(w *world) error {
			_, err := w.f.SetAttr(w.Context(), &w.c, w.walk("f"), vfs.SetAttr{Size: &size}, nil)
			return err
		}, []string{file}},
		"SETATTR of a directory": {func(w *world) error {
			_, err := w.f.SetAttr(w.Context(), &w.c, w.walk("d"), touch, nil)
			return err
		}, []string{"fsync d"}},
		"SETATTR of a link": {func(w *world) error {
			_, err := w.f.SetAttr(w.Context(), &w.c, w.walk("link"), touch, nil)
			return err
		}, []string{all}},
		"SETACL": {func(w *world) error {
			_, err := w.f.SetACL(w.Context(), &w.c, w.walk("f"), &plainACL, nil)
			return err
		}, []string{file}},
		"WRITE unstable": {func(w *world) error { return w.write(&w.c, vfs.Unstable) }, []string{}},
		"WRITE data":     {func(w *world) error { return w.write(&w.c, vfs.DataSync) }, []string{"fdatasync f"}},
		"WRITE file":     {func(w *world) error { return w.write(&w.c, vfs.FileSync) }, []string{file}},
		"COMMIT":         {func(w *world) error { return w.commit(&w.c) }, []string{file}},
		"READ": {func(w *world) error {
			_, _, _, err := w.f.Read(w.Context(), &vfs.Cred{UID: uid}, w.walk("f"), make([]byte, 1), 0)
			return err
		}, []string{}},
		"READDIR": {func(w *world) error {
			_, _, _, err := w.f.ReadDir(w.Context(), &w.c, w.f.Root(), 0, 0, true, func(*vfs.Entry) bool { return true })
			return err
		}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			w, tp := tapWorld(t)
			require.NoError(t, row.do(w))
			assert.Equal(t, row.want, tp.taken(w))

			// A failure is returned, and all clients must write unstable data
			// again.
			if len(row.want) == 0 {
				return
			}
			w, tp = tapWorld(t)
			before := w.f.WriteVerifier()
			tp.say(func(string, int) error { return unix.ENOSPC })
			require.ErrorIs(t, row.do(w), unix.ENOSPC)
			assert.NotEqual(t, before, w.f.WriteVerifier())
		})
	}
}

// write writes to f as c; the owner permits everyone to.
func (w *world) write(c *vfs.Cred, how vfs.Stable) error {
	_, done, _, err := w.f.Write(w.Context(), c, w.walk("f"), []byte("x"), 0, how)
	if err == nil {
		assert.Equal(w, how, done)
	}
	return err
}

func (w *world) commit(c *vfs.Cred) error {
	_, err := w.f.Commit(w.Context(), c, w.walk("f"), 0, 0)
	return err
}

// TestCommitSyncsOthers checks that COMMIT covers the whole file, including
// data written by other callers.
func TestCommitSyncsOthers(t *testing.T) {
	w, tp := tapWorld(t)
	b := user()
	if os.Geteuid() == 0 {
		b = vfs.Cred{UID: 70001, GID: 70001}
	}
	require.NoError(t, w.write(&w.c, vfs.Unstable))
	require.Empty(t, tp.taken(w))
	require.NoError(t, w.commit(&b))
	assert.Equal(t, []string{"fsync f"}, tp.taken(w))

	before := w.f.WriteVerifier()
	tp.say(func(string, int) error { return unix.EIO })
	require.NoError(t, w.write(&w.c, vfs.Unstable))
	assert.ErrorIs(t, w.commit(&b), unix.EIO)
	assert.NotEqual(t, before, w.f.WriteVerifier(), "earlier data must be written again")
	tp.say(nil)
}

// TestCommitAsksWriters checks COMMIT of a file whose data was lost, if only
// the descriptor that wrote it can learn of that: another process has asked the
// kernel before COMMIT opened the file. The writer's descriptor may belong to
// another caller, or wait to be closed. The new verifier tells all writers.
func TestCommitAsksWriters(t *testing.T) {
	for name, tt := range map[string]struct {
		by    vfs.Cred
		leave func(w *world, o *object, fl *file) (end func())
	}{
		"of another caller": {vfs.Cred{UID: 70001, GID: 70001}, func(w *world, _ *object, _ *file) func() {
			vfstest.NeedRoot(w)
			return func() {}
		}},
		"taken from the object": {user(), func(w *world, o *object, fl *file) func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			require.Equal(w, []*file{fl}, o.take(func(*file) bool { return true }))
			return func() { w.f.cache.closeFile(fl) }
		}},
		"taken from the cache": {user(), func(w *world, o *object, _ *file) func() {
			c := &w.f.cache
			c.mu.Lock()
			defer c.mu.Unlock()
			require.Zero(w, o.refs.Load())
			c.removeLocked(o)
			return func() { c.close(o) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, tp := tapWorld(t)
			require.NoError(t, w.write(&w.c, vfs.Unstable))
			o, err := w.f.object(w.walk("f"))
			require.NoError(t, err)
			w.f.put(o)
			require.Len(t, o.files, 1)
			writer := o.files[0]
			before, told := w.f.WriteVerifier(), false
			tp.say(func(_ string, fd int) error {
				if fd != writer.fd || told {
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
			assert.Empty(t, w.f.disk.dirty)
			tp.say(nil)
		})
	}
}

// TestCommitHoldsWriters checks that no descriptor is closed while a COMMIT by
// another caller syncs it, and that taking a lease does not wait for that.
func TestCommitHoldsWriters(t *testing.T) { synctest.Test(t, testCommitHoldsWriters) }

func testCommitHoldsWriters(t *testing.T) {
	w, tp := tapWorld(t)
	require.NoError(t, w.write(&w.c, vfs.Unstable))
	o, err := w.f.object(w.walk("f"))
	require.NoError(t, err)
	w.f.put(o)
	writer := o.files[0]
	begun, goOn := make(chan struct{}), make(chan struct{})
	tp.say(func(_ string, fd int) error {
		if fd == writer.fd {
			close(begun)
			<-goOn
		}
		return nil
	})
	by, err := os.Open(w.s.path("f"))
	require.NoError(t, err)
	defer by.Close()
	committed := ended(func() { assert.NoError(t, w.f.disk.commit(&file{fd: int(by.Fd()), ino: o.ino})) })
	soon(t, begun, "the writer's descriptor is not synced")
	assert.ErrorIs(t, w.f.closeWriters(o), unix.EAGAIN)
	swept := ended(func() {
		for range idleTicks {
			w.f.cache.sweep()
		}
	})
	synctest.Wait()
	not(t, swept, "the descriptor is closed")
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(writer.fd, &st))
	assert.Equal(t, o.ino, st.Ino)
	close(goOn)
	soon(t, committed, "COMMIT does not end")
	soon(t, swept, "the sweep does not end")
	assert.Empty(t, w.f.disk.under)
	tp.say(nil)
}

// TestSyncOfRemoved checks that an object removed meanwhile counts as no loss,
// and that no client must write again.
func TestSyncOfRemoved(t *testing.T) {
	w, tp := tapWorld(t)
	before := w.f.WriteVerifier()
	for _, name := range []string{"f", "empty", "link"} {
		o, err := w.f.object(w.walk(name))
		require.NoError(t, err)
		require.NoError(t, os.Remove(w.s.path(name)))
		assert.NoError(t, w.f.sync(o), name)
		w.f.put(o)
	}
	assert.Empty(t, tp.taken(w))
	assert.Equal(t, before, w.f.WriteVerifier())
}

// TestSyncWithoutOpen checks that an object that the daemon cannot open now is
// synced together with the whole file system.
func TestSyncWithoutOpen(t *testing.T) {
	w, tp := tapWorld(t)
	before := w.f.WriteVerifier()
	o, err := w.f.object(w.walk("f"))
	require.NoError(t, err)
	defer w.f.put(o)
	giveBack := noFDs(t, 0)
	err = w.f.sync(o)
	giveBack()
	require.NoError(t, err)
	assert.Equal(t, []string{"syncfs"}, tp.taken(w))
	assert.Equal(t, before, w.f.WriteVerifier())
}

// TestSyncAgain checks that an interrupted sync is repeated, and that the whole
// file system is synced if it cannot sync single files.
func TestSyncAgain(t *testing.T) {
	w, tp := tapWorld(t)
	before := w.f.WriteVerifier()
	left := 2
	tp.say(func(string, int) error {
		if left--; left >= 0 {
			return unix.EINTR
		}
		return nil
	})
	require.NoError(t, w.commit(&w.c))
	assert.Len(t, tp.log, 3)
	tp.taken(w)

	tp.say(func(call string, _ int) error {
		if call == "syncfs" {
			return nil
		}
		return unix.EINVAL
	})
	require.NoError(t, w.commit(&w.c))
	assert.Equal(t, []string{"fsync f", "syncfs"}, tp.taken(w))
	assert.Equal(t, before, w.f.WriteVerifier())
	tp.say(nil)
}

// TestSyncWaits checks that COMMIT does not return before the verifier has
// changed, if another descriptor, perhaps one being closed, was the only one
// told of lost data.
func TestSyncWaits(t *testing.T) { synctest.Test(t, testSyncWaits) }

func testSyncWaits(t *testing.T) {
	w, tp := tapWorld(t)
	require.NoError(t, w.write(&w.c, vfs.Unstable))
	before := w.f.WriteVerifier()
	closing, fail := make(chan struct{}), make(chan struct{})
	committing := make(chan struct{})
	first := true
	tp.say(func(string, int) error {
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
			w.f.cache.sweep()
		}
	}()
	soon(t, closing, "no file is closed")
	after := make(chan uint64, 1)
	go func() {
		assert.NoError(t, w.commit(&w.c))
		after <- w.f.WriteVerifier()
	}()
	soon(t, committing, "COMMIT does not sync")
	synctest.Wait()
	not(t, after, "COMMIT does not wait")
	close(fail)
	assert.NotEqual(t, before, soon(t, after, "COMMIT waits still"))
	soon(t, swept, "the sweep does not end")
	assert.Empty(t, w.f.disk.under)
	tp.say(nil)
}

// TestSyncBesideFailure checks two syncs by one descriptor, of which only one
// is told of lost data. The other WRITE fails too, and the other COMMIT returns
// the new verifier. Descriptors of several callers may be duplicates of one, if
// the file has a lease for writing.
func TestSyncBesideFailure(t *testing.T) {
	write := func(w *world, c *vfs.Cred) error { return w.write(c, vfs.FileSync) }
	t.Run("WRITE", func(t *testing.T) { testBesideFailure(t, write, user(), unix.EIO) })
	t.Run("COMMIT", func(t *testing.T) { testBesideFailure(t, (*world).commit, user(), nil) })
	t.Run("WRITE of another caller", func(t *testing.T) {
		vfstest.NeedRoot(t)
		testBesideFailure(t, write, vfs.Cred{UID: 70001, GID: 70001}, unix.EIO)
	})
}

// testBesideFailure makes two calls at a time, the second one by another, of which
// the second is told of lost data.
func testBesideFailure(t *testing.T, call func(*world, *vfs.Cred) error, another vfs.Cred, want error) {
	synctest.Test(t, func(t *testing.T) {
		w, tp := tapWorld(t)
		require.NoError(t, w.write(&w.c, vfs.Unstable))
		before := w.f.WriteVerifier()
		begun, goOn := make(chan struct{}), make(chan struct{})
		telling, told := make(chan struct{}), make(chan struct{})
		tp.say(func(string, int) error {
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
		soon(t, begun, "no file is synced")
		tp.say(func(string, int) error { return unix.EIO })
		second := make(chan error, 1)
		go func() { second <- call(w, &another) }()
		soon(t, telling, "the failure is not reported")
		close(goOn)
		synctest.Wait()
		not(t, first, "the sync does not wait")
		close(told)
		assert.ErrorIs(t, soon(t, second, "no answer"), unix.EIO)
		if want == nil {
			require.NoError(t, soon(t, first, "the sync waits still"))
		} else {
			require.ErrorIs(t, soon(t, first, "the sync waits still"), want)
		}
		assert.NotEqual(t, before, soon(t, after, "no verifier"))
		assert.Empty(t, w.f.disk.under)
		tp.say(nil)
	})
}

// TestSyncRounds checks that for any number of waiting callers, one sync of the
// whole file system serves all that came before it began.
func TestSyncRounds(t *testing.T) { synctest.Test(t, testSyncRounds) }

func testSyncRounds(t *testing.T) {
	const many = 5
	var d disk
	lost := 0
	d.init(func(error) { lost++ })
	begun, goOn, over := make(chan struct{}, 4*many), make(chan error), make(chan struct{})
	defer close(over)
	d.syncfs = func(int) error {
		begun <- struct{}{}
		select {
		case err := <-goOn:
			return err
		case <-over:
			return nil
		}
	}
	begins := func() {
		t.Helper()
		soon(t, begun, "no sync begins")
	}
	end := func(err error) {
		t.Helper()
		select {
		case goOn <- err:
		case <-time.After(10 * time.Second):
			t.Fatal("no sync is under way")
		}
	}
	first, last, late := make(chan error, 1), make(chan error, 1), make(chan error, many)
	go func() { first <- d.all() }()
	begins()
	for range many {
		go func() { late <- d.all() }()
	}
	synctest.Wait()
	end(nil)
	require.NoError(t, soon(t, first, "the sync waits still"))
	begins()
	go func() { last <- d.all() }()
	synctest.Wait()
	assert.Empty(t, late, "the first sync may have missed their changes")
	end(unix.EIO)
	for range many {
		assert.ErrorIs(t, soon(t, late, "the sync waits still"), unix.EIO)
	}
	assert.Equal(t, 1, lost)
	begins()
	end(nil)
	assert.ErrorIs(t, soon(t, last, "the sync waits still"), unix.EIO, "the kernel told only the round before, which may have passed the change")
	assert.Equal(t, 1, lost)
	go func() { first <- d.all() }()
	begins()
	end(nil)
	require.NoError(t, soon(t, first, "the sync waits still"))
	assert.Nil(t, d.now)
}
