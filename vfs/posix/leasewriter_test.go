//go:build linux

package posix

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// newWriterLeaseTest returns a leaseTest whose file belongs to the user.
func newWriterLeaseTest(t *testing.T, base string) *leaseTest {
	w := newLeaseTest(t, base)
	w.giveToCaller("f", 0o644)
	return w
}

// giveToCaller gives a file to the user.
func (w *leaseTest) giveToCaller(name string, mode os.FileMode) {
	w.Helper()
	if os.Geteuid() == 0 {
		require.NoError(w, os.Chown(w.s.path(name), int(w.c.UID), int(w.c.GID)))
	}
	require.NoError(w, os.Chmod(w.s.path(name), mode))
}

func (w *leaseTest) tryLeaseTo(scope vfs.LeaseScope) error {
	release, err := w.f.Lease(w.Context(), &w.c, w.h, scope, func() {})
	if err == nil {
		release()
	}
	return err
}

// countWritable returns how many descriptors of the file f the process has open for
// writing.
func (w *leaseTest) countWritable() (n int) {
	w.Helper()
	var f, st unix.Stat_t
	require.NoError(w, unix.Stat(w.s.path("f"), &f))
	dir, err := os.ReadDir("/proc/self/fd")
	require.NoError(w, err)
	for _, e := range dir {
		var fd int
		_, err := fmt.Sscan(e.Name(), &fd)
		require.NoError(w, err)
		if unix.Fstat(fd, &st) != nil || st.Dev != f.Dev || st.Ino != f.Ino { // perhaps that of ReadDir
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		require.NoError(w, err)
		if flags&unix.O_ACCMODE != unix.O_RDONLY {
			n++
		}
	}
	return n
}

// TestLeaseWriter checks that a local process that opens the file, even to read, waits for the
// holder of a lease for writing, and sees what the holder has written in the meantime.
func TestLeaseWriter(t *testing.T) {
	for place, base := range places {
		for name, script := range map[string]string{"read": "cat f", "write": "cat f; echo new >>f", "cut": "truncate -s 3 f; cat f", "run": "sh f; cat f"} {
			t.Run(place+"/"+name, func(t *testing.T) {
				w := newWriterLeaseTest(t, base)
				opened := w.openFile(w.h, openBoth)
				broken, release := w.leaseOn("f", vfs.LeaseWrite)
				sh := exec.Command("sh", "-c", script)
				sh.Dir = w.s.dir
				var out strings.Builder
				sh.Stdout = &out
				require.NoError(t, sh.Start())
				ended := make(chan error, 1)
				go func() { ended <- sh.Wait() }()
				receiveSoon(t, broken, "the holder is not notified")
				assertNoReceive(t, ended, "the process did not wait")
				assert.ErrorIs(t, w.tryLeaseTo(vfs.LeaseWrite), unix.EAGAIN, "while it is broken")
				_, _, err := opened.Write.Write(t.Context(), []byte("by the open"), 0, vfs.Unstable)
				require.NoError(t, err)
				_, _, _, err = w.f.Write(t.Context(), &w.c, w.h, []byte(":by"), 0, vfs.FileSync) // nothing, to a shell
				require.NoError(t, err)
				require.NoError(t, opened.Write.Commit(t.Context(), 0, 0))
				assertNoReceive(t, ended, "the process did not wait for the holder's data")
				release()
				release()
				require.NoError(t, receiveSoon(t, ended, "the process waits still"))
				assert.Contains(t, out.String(), ":by")
				opened.Close()
				assert.Zero(t, leasedFDs.Load())
				assert.Zero(t, w.countWatches())
			})
		}
	}
}

// TestLeaseWriterOwn checks that no use by the FS itself breaks a lease for
// writing, by any caller, and that all of them see the same file.
func TestLeaseWriterOwn(t *testing.T) {
	for place, base := range places {
		t.Run(place, func(t *testing.T) {
			if base == "" {
				base = leaseBase(t)
			}
			w := newWriterLeaseTest(t, base)
			w.giveToCaller("f", 0o666)
			before := w.openFile(w.h, openBoth)
			broken, release := w.leaseOn("f", vfs.LeaseWrite)
			ctx, other := t.Context(), vfs.Cred{UID: 70001, GID: 70001}
			big := []byte(strings.Repeat("0123456789abcdef", minMapped/16))
			for _, c := range []*vfs.Cred{&w.c, &other} {
				size := uint64(minMapped + 5)
				_, err := w.f.SetAttr(ctx, c, w.h, vfs.SetAttr{Size: &size}, nil)
				require.NoError(t, err)
				n, _, _, err := w.f.Write(ctx, c, w.h, big, 0, vfs.Unstable)
				require.NoError(t, err)
				require.Equal(t, minMapped, n)
				_, err = w.f.Commit(ctx, c, w.h, 0, 0)
				require.NoError(t, err)
				opened, err := w.f.OpenFile(ctx, c, w.h, openBoth)
				require.NoError(t, err)
				_, _, err = opened.Write.Write(ctx, []byte("end"), minMapped, vfs.FileSync)
				require.NoError(t, err)
				require.NoError(t, opened.Write.SetSize(ctx, minMapped+3))
				p := make([]byte, minMapped+10)
				for _, f := range []vfs.File{opened.Read, before.Read} {
					n, eof, err := f.Read(ctx, p, 0)
					require.NoError(t, err)
					assert.True(t, eof)
					assert.Equal(t, string(big)+"end", string(p[:n]))
				}
				b, _, _, err := w.f.Map(ctx, c, w.h, 0, minMapped)
				require.NoError(t, err)
				assert.Nil(t, b, "the mapping would outlast the lease")
				_, _, err = opened.Read.Write(ctx, []byte("x"), 0, vfs.Unstable)
				assert.Equal(t, unix.EBADF, err)
				_, _, err = opened.Write.Read(ctx, p, 0)
				assert.Equal(t, unix.EBADF, err)
				opened.Close()
				_, err = w.f.SetAttr(ctx, &w.c, w.h, vfs.SetAttr{MtimeHow: vfs.SetToServer}, nil)
				require.NoError(t, err)
			}
			for range idleTicks {
				w.f.cache.sweepAll()
			}
			w.waitForEvents()
			assertNoReceive(t, broken, "the FS has broken its own lease")
			before.Close()
			release()
		})
	}
}

// TestLeaseWriterLocks checks that the holder of a lease for writing locks the
// file without breaking the lease, and that the locks remain after it.
func TestLeaseWriterLocks(t *testing.T) {
	w := newWriterLeaseTest(t, "")
	broken, release := w.leaseOn("f", vfs.LeaseWrite)
	for _, scope := range []vfs.LeaseScope{vfs.LeaseData, vfs.LeaseAll, vfs.LeaseWrite} {
		assert.ErrorIs(t, w.tryLeaseTo(scope), unix.EAGAIN, "the FS has no file open for writing, but for the lease")
	}
	l := w.openLocks(w.h)
	first, second := locks.Range{Start: 0, End: 9}, locks.Range{Start: 10, End: 19}
	for _, set := range []struct {
		r    locks.Range
		kind locks.Kind
	}{{first, locks.Exclusive}, {second, locks.Shared}, {first, locks.None}, {first, locks.Shared}, {second, locks.Exclusive}} {
		ok, err := l.SetLock(set.r, set.kind)
		require.NoError(t, err)
		assert.True(t, ok)
	}
	w.waitForEvents()
	assertNoReceive(t, broken, "a lock breaks the lease")
	release()
	host, _ := w.description("f")
	assert.True(t, host(first, locks.Shared))
	assert.False(t, host(first, locks.Exclusive))
	assert.False(t, host(second, locks.Shared))
	ok, err := l.SetLock(second, locks.Shared)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.True(t, host(second, locks.Shared))
	l.Close()
	assert.True(t, host(second, locks.Exclusive))
}

// TestLeaseWriterRefused checks that a file that anybody else uses gets no lease
// for writing, and that the attempt leaves no descriptor open for writing.
func TestLeaseWriterRefused(t *testing.T) {
	for name, use := range map[string]func(w *leaseTest) (end func()){
		"local reader": func(w *leaseTest) func() {
			f, err := os.Open(w.s.path("f"))
			require.NoError(w, err)
			return func() { require.NoError(w, f.Close()) }
		},
		"local writer": func(w *leaseTest) func() {
			f, err := os.OpenFile(w.s.path("f"), os.O_WRONLY, 0)
			require.NoError(w, err)
			return func() { require.NoError(w, f.Close()) }
		},
		"locks": func(w *leaseTest) func() { return w.openLocks(w.h).Close },
		"unsynced data": func(w *leaseTest) func() {
			_, _, _, err := w.f.Write(w.Context(), &w.c, w.h, []byte("x"), 0, vfs.Unstable)
			require.NoError(w, err)
			return func() {
				_, err := w.f.Commit(w.Context(), &w.c, w.h, 0, 0)
				require.NoError(w, err)
			}
		},
		"lease for reading": func(w *leaseTest) func() {
			_, release := w.leaseOn("f", vfs.LeaseAll)
			return release
		},
		"lease for reading that the kernel has taken": func(w *leaseTest) func() {
			_, release := w.leaseOn("f", vfs.LeaseData)
			for fd := range w.f.leases.byFD {
				require.NoError(w, setLease(fd, unix.F_UNLCK))
			}
			return release
		},
		"lent data": func(w *leaseTest) func() {
			require.NoError(w, os.WriteFile(w.s.path("f"), make([]byte, minMapped), 0))
			b, _, _, err := w.f.Map(w.Context(), &w.c, w.h, 0, minMapped)
			require.NoError(w, err)
			require.NotNil(w, b)
			return b.Release
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWriterLeaseTest(t, "")
			opened := w.openFile(w.h, vfs.OpenRead)
			end := use(w)
			assert.ErrorIs(t, w.tryLeaseTo(vfs.LeaseWrite), unix.EAGAIN)
			assert.Zero(t, leasedFDs.Load()&^1, "one of another kind")
			end()
			opened.Close()
			if name == "local reader" {
				assert.Zero(t, w.countWritable(), "after the attempt")
			}
			assert.NoError(t, w.tryLeaseTo(vfs.LeaseData))
			assert.Zero(t, w.countWritable())
			opened = w.openFile(w.h, vfs.OpenRead)
			assert.NoError(t, w.tryLeaseTo(vfs.LeaseWrite))
			assert.Zero(t, w.countWritable())
			assert.NoError(t, w.tryLeaseTo(vfs.LeaseAll))
			opened.Close()
			assert.Zero(t, leasedFDs.Load())
		})
	}
}

// TestLeaseWriterRoom checks the errors without free descriptors, without rights, and for objects
// without data.
func TestLeaseWriterRoom(t *testing.T) {
	w := newWriterLeaseTest(t, "")
	w.f.leases.max = 0
	assert.ErrorIs(t, w.tryLeaseTo(vfs.LeaseWrite), unix.EMFILE)
	w.f.leases.max = 1
	w.f.leases.addWatch = func(int, string, uint32) (int, error) { return 0, unix.ENOSPC }
	assert.ErrorIs(t, w.tryLeaseTo(vfs.LeaseWrite), unix.EMFILE)
	w.f.leases.addWatch = unix.InotifyAddWatch
	assert.Zero(t, w.countWritable())
	assert.NoError(t, w.tryLeaseTo(vfs.LeaseWrite))
	w.f.leases.allowed = false
	assert.ErrorIs(t, w.tryLeaseTo(vfs.LeaseWrite), unix.EOPNOTSUPP)
	w.f.leases.allowed = true
	_, err := w.f.Lease(t.Context(), &w.c, w.f.Root(), vfs.LeaseWrite, nil)
	assert.ErrorIs(t, err, unix.EOPNOTSUPP)
	assert.Zero(t, leasedFDs.Load())
	if os.Geteuid() == 0 {
		w.c.UID++
		assert.ErrorIs(t, w.tryLeaseTo(vfs.LeaseWrite), unix.EACCES)
	}
}

// TestLeaseWriterRights checks that the daemon's description, which is open for
// reading and writing, gives no caller a right.
func TestLeaseWriterRights(t *testing.T) {
	vfstest.NeedRoot(t)
	w := newWriterLeaseTest(t, "")
	w.giveToCaller("f", 0o244) // its owner may read it all the same, as by NFS in general
	reader := vfs.Cred{UID: 70001, GID: 70001}
	before := w.openFile(w.h, vfs.OpenWrite)
	_, release := w.leaseOn("f", vfs.LeaseWrite)
	may := func(c *vfs.Cred, acc vfs.OpenAccess) error {
		opened, err := w.f.OpenFile(t.Context(), c, w.h, acc)
		opened.Close()
		return err
	}
	assert.NoError(t, may(&w.c, openBoth))
	assert.NoError(t, may(&reader, vfs.OpenRead))
	assert.Equal(t, unix.EACCES, may(&reader, vfs.OpenWrite))
	_, _, _, err := w.f.Write(t.Context(), &reader, w.h, []byte("x"), 0, vfs.Unstable)
	assert.Equal(t, unix.EACCES, err)
	p := make([]byte, 1)
	_, _, _, err = w.f.Read(t.Context(), &reader, w.h, p, 0)
	assert.NoError(t, err)
	w.giveToCaller("f", 0o601)
	_, _, _, err = w.f.Read(t.Context(), &reader, w.h, p, 0)
	assert.NoError(t, err, "who may execute a file may read it by NFS")
	w.giveToCaller("f", 0o600)
	_, _, _, err = w.f.Read(t.Context(), &reader, w.h, p, 0)
	assert.Equal(t, unix.EACCES, err)
	assert.Equal(t, unix.EACCES, may(&reader, vfs.OpenRead))
	before.Close()
	release()
}

// TestLeaseWriterNames checks that a change of names or attributes by a local
// process breaks a lease for writing.
func TestLeaseWriterNames(t *testing.T) {
	at := func(w *leaseTest, name string) string { return w.s.path(name) }
	for name, change := range map[string]func(w *leaseTest) error{
		"rename":      func(w *leaseTest) error { return os.Rename(at(w, "f"), at(w, "new")) },
		"rename over": func(w *leaseTest) error { return os.Rename(at(w, "other"), at(w, "f")) },
		"unlink":      func(w *leaseTest) error { return os.Remove(at(w, "f")) },
		"link":        func(w *leaseTest) error { return os.Link(at(w, "f"), at(w, "new")) },
		"chmod":       func(w *leaseTest) error { return os.Chmod(at(w, "f"), 0o600) },
		"utimes":      func(w *leaseTest) error { return os.Chtimes(at(w, "f"), time.Unix(1, 0), time.Unix(2, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWriterLeaseTest(t, "")
			w.hostFile("other")
			opened := w.openFile(w.h, openBoth)
			broken, release := w.leaseOn("f", vfs.LeaseWrite)
			require.NoError(t, change(w))
			receiveSoon(t, broken, "the holder is not notified")
			_, _, err := opened.Write.Write(t.Context(), []byte("x"), 0, vfs.FileSync)
			assert.NoError(t, err, "the holder writes back")
			opened.Close()
			release()
			assert.Zero(t, w.countWatches())
			assert.Zero(t, leasedFDs.Load())
		})
	}
}

// TestLeaseWriterClose checks that Close lets waiting processes continue, and that
// a later release is harmless.
func TestLeaseWriterClose(t *testing.T) {
	w := newWriterLeaseTest(t, "")
	broken, release := w.leaseOn("f", vfs.LeaseWrite)
	l := w.openLocks(w.h)
	opened := w.writer("f")
	receiveSoon(t, broken, "the holder is not notified")
	require.NoError(t, w.f.Close())
	require.NoError(t, receiveSoon(t, opened, "the writer waits"))
	release()
	ok, err := l.SetLock(locks.Range{End: 9}, locks.Shared)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Zero(t, w.countWritable(), "the locks keep the description of the lease")
	l.Close()
	assert.Zero(t, leasedFDs.Load())
}
