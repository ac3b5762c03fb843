//go:build linux

package posix

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// leaseOn takes a lease of a file, and returns a channel that is closed when
// the lease is broken.
func (w *leaseTest) leaseOn(name string, scope vfs.LeaseScope) (broken chan struct{}, release func()) {
	w.Helper()
	broken = make(chan struct{})
	release, err := w.f.Lease(w.Context(), &w.c, w.walk(name), scope, func() { close(broken) }) // a second call would panic
	require.NoError(w, err)
	return broken, release
}

// unnotifiedHolders returns how many holders are not notified, by their scope.
func (w *leaseTest) unnotifiedHolders() (data, all int) {
	l := &w.f.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, le := range l.byFD {
		for _, h := range le.holders {
			switch {
			case h.notified:
			case h.mark != nil:
				all++
			default:
				data++
			}
		}
	}
	return data, all
}

// dirMarks returns the FS's watches.
func (w *leaseTest) dirMarks() []*dirMark {
	l := &w.f.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.observer.marks))
}

// countWatches returns how many watches the kernel has for the FS.
func (w *leaseTest) countWatches() int {
	w.Helper()
	b, err := os.ReadFile(fmt.Sprint("/proc/self/fdinfo/", w.f.leases.observer.fd))
	require.NoError(w, err)
	return strings.Count(string(b), "inotify wd:")
}

// waitForEvents returns after the FS has read all events that exist now, because a
// later one of the file "last" has been read.
func (w *leaseTest) waitForEvents() {
	w.Helper()
	w.hostFile("last")
	broken, release := w.leaseOn("last", vfs.LeaseAll)
	require.NoError(w, os.Chmod(w.s.path("last"), 0o600))
	receiveSoon(w, broken, "a change of the mode is not reported")
	release()
}

// TestLeaseNames checks that each change of a file's names or attributes by a
// local process is reported to the holders that asked for such changes, and to
// no other holder, and that a change of data is reported to all.
func TestLeaseNames(t *testing.T) {
	for place, base := range places {
		if base == "" {
			base = leaseBase(t)
		}
		at := func(w *leaseTest, name string) string { return w.s.path(name) }
		acl := appendACL(nil, vfs.ACL{
			{Tag: vfs.ACLUserObj, Perm: 6},
			{Tag: vfs.ACLUser, Perm: 4, ID: 70001},
			{Tag: vfs.ACLGroupObj, Perm: 4},
			{Tag: vfs.ACLMask, Perm: 4},
			{Tag: vfs.ACLOther, Perm: 4},
		})
		for name, change := range map[string]func(w *leaseTest) error{
			"rename":           func(w *leaseTest) error { return os.Rename(at(w, "f"), at(w, "new")) },
			"rename elsewhere": func(w *leaseTest) error { return os.Rename(at(w, "f"), at(w, "d/f")) },
			"rename over":      func(w *leaseTest) error { return os.Rename(at(w, "other"), at(w, "f")) },
			"exchange": func(w *leaseTest) error {
				return unix.Renameat2(unix.AT_FDCWD, at(w, "other"), unix.AT_FDCWD, at(w, "f"), unix.RENAME_EXCHANGE)
			},
			"unlink":             func(w *leaseTest) error { return os.Remove(at(w, "f")) },
			"unlink one of two":  func(w *leaseTest) error { return os.Remove(at(w, "two")) },
			"link":               func(w *leaseTest) error { return os.Link(at(w, "f"), at(w, "new")) },
			"chmod":              func(w *leaseTest) error { return os.Chmod(at(w, "f"), 0o600) },
			"chown":              func(w *leaseTest) error { return os.Chown(at(w, "f"), -1, os.Getegid()) },
			"utimes":             func(w *leaseTest) error { return os.Chtimes(at(w, "f"), time.Unix(1, 0), time.Unix(2, 0)) },
			"modification time":  func(w *leaseTest) error { return os.Chtimes(at(w, "f"), time.Time{}, time.Unix(2, 0)) },
			"extended attribute": func(w *leaseTest) error { return unix.Setxattr(at(w, "f"), "user.x", []byte("x"), 0) },
			"access control list": func(w *leaseTest) error {
				return unix.Setxattr(at(w, "f"), accessACL, acl, 0)
			},
		} {
			t.Run(place+"/"+name, func(t *testing.T) {
				w := newLeaseTest(t, base)
				if name == "extended attribute" && !w.f.xattrs {
					t.Skip("no extended attributes here")
				}
				w.hostFile("other")
				w.hostDir("d")
				if name == "unlink one of two" {
					require.NoError(t, os.Link(at(w, "f"), at(w, "two")))
				}
				before, releaseData := w.leaseOn("f", vfs.LeaseData)
				broken, releaseAll := w.leaseOn("f", vfs.LeaseAll)
				second, releaseSecond := w.leaseOn("f", vfs.LeaseAll)
				assert.NoError(t, change(w))
				receiveSoon(t, broken, "the first holder is not notified")
				receiveSoon(t, second, "the second holder is not notified")
				w.waitForEvents()
				data, all := w.unnotifiedHolders()
				assert.Equal(t, 1, data, "the lease of data stands")
				assert.Zero(t, all)
				assertNoReceive(t, before, "a lease is about data")
				releaseAll()
				assert.Equal(t, 1, w.countWatches(), "the second holder's")
				releaseSecond()
				assert.Zero(t, w.countWatches())
				releaseData()
				assert.Zero(t, leasedFDs.Load())
			})
		}
		for name, change := range map[string]func(w *leaseTest) error{
			"write": func(w *leaseTest) error { return os.WriteFile(at(w, "f"), []byte("new"), 0) },
			"cut":   func(w *leaseTest) error { return os.Truncate(at(w, "f"), 0) },
		} {
			t.Run(place+"/"+name, func(t *testing.T) {
				w := newLeaseTest(t, base)
				data, releaseData := w.leaseOn("f", vfs.LeaseData)
				all, releaseAll := w.leaseOn("f", vfs.LeaseAll)
				done := make(chan error, 1)
				go func() { done <- change(w) }()
				receiveSoon(t, data, "the holder of the data is not notified")
				receiveSoon(t, all, "the other holder is not notified")
				releaseData()
				assertNoReceive(t, done, "the process did not wait for the second holder")
				releaseAll()
				assert.NoError(t, receiveSoon(t, done, "the process waits still"))
				w.waitForEvents()
			})
		}
	}
}

// TestLeaseNamesBoth checks that a holder that was notified of a change of the mode is not notified
// of a change of data again, that the process that changes the data waits for the holder, and that
// another lease is possible in the meantime.
func TestLeaseNamesBoth(t *testing.T) {
	w := newLeaseTest(t, "")
	broken, release := w.leaseOn("f", vfs.LeaseAll)
	require.NoError(t, os.Chmod(w.s.path("f"), 0o600))
	receiveSoon(t, broken, "the holder is not notified")
	require.NoError(t, os.Chmod(w.s.path("f"), 0o644))
	w.waitForEvents() // a second call would panic
	data, releaseData := w.leaseOn("f", vfs.LeaseData)
	all, releaseAll := w.leaseOn("f", vfs.LeaseAll)
	opened := w.writer("f")
	receiveSoon(t, data, "a writer is not reported")
	receiveSoon(t, all, "a writer is not reported")
	releaseData()
	releaseAll()
	assertNoReceive(t, opened, "the writer did not wait for the first holder")
	release()
	require.NoError(t, receiveSoon(t, opened, "the writer waits still"))
}

// TestLeaseNamesOwn checks that the FS reports its own changes of names and
// attributes.
func TestLeaseNamesOwn(t *testing.T) {
	w := newLeaseTest(t, "")
	su := vfs.Cred{UID: uint32(os.Geteuid())}
	root, mode := w.f.Root(), uint32(0o604)
	for _, change := range []func() error{
		func() error {
			_, err := w.f.SetAttr(t.Context(), &su, w.h, vfs.SetAttr{Mode: &mode}, nil)
			return err
		},
		func() error {
			_, _, err := w.f.Link(t.Context(), &su, w.h, root, "g")
			return err
		},
		func() error {
			_, _, err := w.f.Rename(t.Context(), &su, root, "g", root, "h")
			return err
		},
		func() error {
			_, err := w.f.Remove(t.Context(), &su, root, "h")
			return err
		},
	} {
		broken, release := w.leaseOn("f", vfs.LeaseAll)
		require.NoError(t, change())
		receiveSoon(t, broken, "the holder is not notified")
		release()
	}
}

// TestLeaseNamesReads checks that neither reads and changes of the access time
// nor changes of other files of the directory break a lease.
func TestLeaseNamesReads(t *testing.T) {
	for place, base := range places {
		t.Run(place, func(t *testing.T) {
			if base == "" {
				base = leaseBase(t)
			}
			w := newLeaseTest(t, base)
			w.hostFile("other")
			w.hostDir("d")
			f, other := w.s.path("f"), w.s.path("other")
			require.NoError(t, os.Chtimes(f, time.Unix(1, 0), time.Unix(2, 0))) // relatime changes an access time before mtime
			_, releaseData := w.leaseOn("f", vfs.LeaseData)
			_, releaseAll := w.leaseOn("f", vfs.LeaseAll)
			for range 2 {
				got, err := os.ReadFile(f)
				require.NoError(t, err)
				assert.Equal(t, "f", string(got))
				_, _, _, err = w.f.Read(t.Context(), &w.c, w.h, make([]byte, 1), 0)
				require.NoError(t, err)
				require.NoError(t, w.getattr(w.h))
				w.walk("f")
				_, err = os.ReadDir(w.s.dir)
				require.NoError(t, err)
				require.NoError(t, os.Chtimes(f, time.Unix(1, 0), time.Time{}))
				require.NoError(t, os.Chmod(other, 0o600))
				require.NoError(t, os.WriteFile(other, []byte("new"), 0))
				require.NoError(t, os.Link(other, w.s.path("link")))
				require.NoError(t, os.Rename(w.s.path("link"), w.s.path("d", "link")))
				require.NoError(t, os.Remove(w.s.path("d", "link")))
				require.NoError(t, os.Chmod(w.s.dir, 0o755))
			}
			w.waitForEvents()
			data, all := w.unnotifiedHolders()
			assert.Equal(t, 1, data)
			assert.Equal(t, 1, all)
			releaseData()
			releaseAll()
		})
	}
}

// TestLeaseNamesNow checks that a change concurrent with Lease is either seen
// by a caller that looks after Lease has returned, or reported.
func TestLeaseNamesNow(t *testing.T) {
	w := newLeaseTest(t, "")
	for i := range 300 {
		mode := 0o400 | os.FileMode(i%64)
		var done sync.WaitGroup
		done.Go(func() { assert.NoError(t, os.Chmod(w.s.path("f"), mode|0o044)) })
		broken, release := w.leaseOn("f", vfs.LeaseAll)
		st, err := os.Stat(w.s.path("f"))
		require.NoError(t, err)
		done.Wait()
		if st.Mode() != mode|0o044 {
			receiveSoon(t, broken, "a change is lost")
		}
		release()
	}
}

// TestLeaseNamesNone checks that a file that has lost its last name gets no
// lease for names, although it is open, and that no watch is left.
func TestLeaseNamesNone(t *testing.T) {
	w := newLeaseTest(t, "")
	reader := w.openFile(w.h, vfs.OpenRead)
	defer reader.Close()
	require.NoError(t, os.Remove(w.s.path("f")))
	release, err := w.f.Lease(t.Context(), &w.c, w.h, vfs.LeaseData, func() {})
	require.NoError(t, err)
	release()
	_, err = w.f.Lease(t.Context(), &w.c, w.h, vfs.LeaseAll, func() {})
	assert.Equal(t, unix.EAGAIN, err)
	assert.Zero(t, w.countWatches())
	assert.Zero(t, leasedFDs.Load())
}

// TestLeaseNamesGone checks that a removed watch, which the kernel reports when a removed file is
// closed, notifies only its holders, even if another file then gets the same watch descriptor.
func TestLeaseNamesGone(t *testing.T) {
	w := newLeaseTest(t, "")
	w.hostFile("g")
	first, release := w.leaseOn("f", vfs.LeaseAll)
	wd := w.dirMarks()[0].wd
	g, releaseG := w.leaseOn("g", vfs.LeaseAll)
	w.f.leases.notifyWatch(wd, unix.IN_IGNORED)
	receiveSoon(t, first, "the holder is not notified")
	assert.Len(t, w.dirMarks(), 1, "g's")
	w.f.leases.notifyWatch(wd, unix.IN_ATTRIB)
	w.f.leases.notifyWatch(wd, unix.IN_IGNORED)
	_, all := w.unnotifiedHolders()
	assert.Equal(t, 1, all)
	next := &dirMark{wd: wd}
	w.f.leases.mu.Lock()
	w.f.leases.observer.marks[wd] = next
	w.f.leases.mu.Unlock()
	release()
	assert.Contains(t, w.dirMarks(), next)
	require.NoError(t, os.Remove(w.s.path("g")))
	receiveSoon(t, g, "the holder is not notified")
	releaseG()
	assert.Equal(t, []*dirMark{next}, w.dirMarks())
}

// TestLeaseNamesLost checks that all holders are notified if the kernel has
// dropped events.
func TestLeaseNamesLost(t *testing.T) {
	w := newLeaseTest(t, "/dev/shm")
	b, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	require.NoError(t, err)
	var queueLimit int
	_, err = fmt.Sscan(string(b), &queueLimit)
	require.NoError(t, err)
	names := []string{"a", "b"}
	for _, name := range names {
		w.hostFile(name)
		_, release := w.leaseOn(name, vfs.LeaseAll)
		defer release()
	}
	broken, release := w.leaseOn("f", vfs.LeaseAll)
	defer release()
	data, releaseData := w.leaseOn("f", vfs.LeaseData)
	defer releaseData()
	w.f.leases.mu.Lock()              // the observer blocks at the first event
	for i := range queueLimit + 200 { // equal events in a row would be one
		if err = os.Chmod(w.s.path(names[i%2]), 0o600); err != nil {
			break
		}
	}
	w.f.leases.mu.Unlock()
	require.NoError(t, err)
	receiveSoon(t, broken, "no holder is notified")
	n, all := w.unnotifiedHolders()
	assert.Equal(t, 1, n)
	assert.Zero(t, all)
	assertNoReceive(t, data, "a lease is about data")
}

// TestLeaseNamesMany checks that many leases have a watch each, that each
// change is reported to the file's holder, and that no watch is left.
func TestLeaseNamesMany(t *testing.T) {
	files := int(min(1000, maxFiles()/4))
	w := newLeaseTest(t, "/dev/shm")
	told := make(chan int, files)
	releases := make([]func(), files)
	for i := range files {
		w.hostFile(fmt.Sprint(i))
		var err error
		releases[i], err = w.f.Lease(t.Context(), &w.c, w.walk(fmt.Sprint(i)), vfs.LeaseAll, func() { told <- i })
		require.NoError(t, err, i)
	}
	assert.Equal(t, files, w.countWatches())
	for i := range files {
		require.NoError(t, os.Remove(w.s.path(fmt.Sprint(i))))
		require.Equal(t, i, receiveSoon(t, told, "a removal is not reported"))
		releases[i]()
	}
	assert.Zero(t, w.countWatches())
	assert.Empty(t, w.dirMarks())
	assert.Zero(t, leasedFDs.Load())
}

// TestLeaseNamesRoom checks that a lease without a watch or an inotify descriptor fails with
// EMFILE, and that data leases need neither.
func TestLeaseNamesRoom(t *testing.T) {
	w := newLeaseTest(t, "")
	_, release := w.leaseOn("f", vfs.LeaseData)
	defer release()
	lease := func() error {
		_, err := w.f.Lease(t.Context(), &w.c, w.h, vfs.LeaseAll, func() {})
		return err
	}
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	none := old
	none.Cur = 0
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	err := lease()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	assert.Equal(t, unix.EMFILE, err)
	w.f.leases.addWatch = func(int, string, uint32) (int, error) { return -1, unix.ENOSPC }
	assert.Equal(t, unix.EMFILE, lease())
	_, releaseData := w.leaseOn("f", vfs.LeaseData)
	releaseData()
	assert.Zero(t, w.countWatches())
	data, all := w.unnotifiedHolders()
	assert.Equal(t, 1, data)
	assert.Zero(t, all)
}

// TestLeaseNamesRefused checks that a lease that the kernel denies leaves no watch.
func TestLeaseNamesRefused(t *testing.T) {
	w := newLeaseTest(t, "")
	other, err := os.OpenFile(w.s.path("f"), os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = w.f.Lease(t.Context(), &w.c, w.h, vfs.LeaseAll, func() {})
	assert.Equal(t, unix.EAGAIN, err)
	assert.Zero(t, w.countWatches())
	require.NoError(t, other.Close())
}

// TestLeaseNamesRights checks that a root that may not read a file itself
// watches the file as the caller, who may.
func TestLeaseNamesRights(t *testing.T) {
	vfstest.NeedRoot(t)
	w := newLeaseTest(t, "")
	f := w.s.path("f")
	require.NoError(t, os.Chown(f, int(w.c.UID), int(w.c.GID)))
	require.NoError(t, os.Chmod(f, 0o600))
	_, _, _, err := w.f.Read(t.Context(), &w.c, w.h, make([]byte, 1), 0) // opens it
	require.NoError(t, err)
	onThread(func() {
		for _, capability := range []int{unix.CAP_DAC_READ_SEARCH, unix.CAP_DAC_OVERRIDE} {
			assert.NoError(t, dropCapability(capability))
		}
		broken, release := w.leaseOn("f", vfs.LeaseAll)
		defer release()
		assert.NoError(t, os.Chown(f, -1, 0))
		receiveSoon(t, broken, "the holder is not notified")
	})
}

// TestLeaseNamesClose checks that Close removes watches, and that a later release is harmless.
func TestLeaseNamesClose(t *testing.T) {
	w := newLeaseTest(t, "")
	broken, release := w.leaseOn("f", vfs.LeaseAll)
	ob := w.f.leases.observer
	require.NoError(t, w.f.Close())
	_, err := ob.file.Read(make([]byte, 1))
	assert.ErrorIs(t, err, os.ErrClosed)
	require.NoError(t, os.Remove(w.s.path("f")))
	release()
	assertNoReceive(t, broken, "after Close")
	assert.Zero(t, leasedFDs.Load())
}
