//go:build linux

package posix

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// A leaseTest has a file that user can read and local processes change.
type leaseTest struct {
	*testFS
	h vfs.Handle
}

func newLeaseTest(t *testing.T, base string) *leaseTest {
	return newIdleLeaseTest(t, base, time.Hour) // tests sweep explicitly
}

func newIdleLeaseTest(t *testing.T, base string, idle time.Duration) *leaseTest {
	checkCleanup(t)
	o := tableKind()
	o.IdleTime = idle
	if base == "" {
		base = leaseBase(t)
	}
	s := newExportedDir(t, base, o)
	w := &testFS{t, s, s.open(t), user()}
	w.hostFile("f")
	return &leaseTest{w, w.walk("f")}
}

// leaseBase returns a directory in a file system with leases: the directory of
// temporary files, or a file system in memory if that has none, as in a
// container.
func leaseBase(t *testing.T) string {
	t.Helper()
	for _, base := range []string{os.TempDir(), "/dev/shm"} {
		if hasLeases(t, base) {
			return base
		}
	}
	t.Skip("neither the place of temporary files nor /dev/shm has leases")
	return ""
}

func hasLeases(t *testing.T, base string) bool {
	var fs unix.Statfs_t
	if unix.Statfs(base, &fs) != nil || !traitsOf(uint32(fs.Type)).local {
		return false
	}
	f, err := os.CreateTemp(base, "nfsrdma")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	defer os.Remove(f.Name())
	fd, err := unix.Open(f.Name(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer closeFD(fd)
	return setLease(fd, unix.F_RDLCK) == nil
}

// lease takes a lease, and returns a channel that is closed when the lease is
// broken.
func (w *leaseTest) lease() (broken chan struct{}, release func()) {
	w.Helper()
	broken = make(chan struct{})
	release, err := w.f.Lease(w.Context(), &w.c, w.h, vfs.LeaseData, func() { close(broken) }) // a second call would panic
	require.NoError(w, err)
	return broken, release
}

func (w *leaseTest) tryLease() error {
	release, err := w.f.Lease(w.Context(), &w.c, w.h, vfs.LeaseData, func() {})
	if err == nil {
		release()
	}
	return err
}

func receiveSoon[T any](t testing.TB, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Second):
		t.Fatal(what)
	}
	return v
}

func assertNoReceive[T any](t testing.TB, c <-chan T, what string) {
	t.Helper()
	select {
	case <-c:
		t.Fatal(what)
	default:
	}
}

// TestLease checks that a local process that writes to a file, or truncates it,
// waits until the lease is given back, and that a reader does not wait.
func TestLease(t *testing.T) {
	for place, base := range places {
		for name, script := range map[string]string{"write": "echo new >>f", "cut": "truncate -s 0 f; printf new >>f", "replace": "echo new >f"} {
			t.Run(place+"/"+name, func(t *testing.T) {
				w := newLeaseTest(t, base)
				broken, release := w.lease()
				sh := exec.Command("sh", "-c", "cat f; "+script)
				sh.Dir = w.s.dir
				require.NoError(t, sh.Start())
				ended := make(chan error, 1)
				go func() { ended <- sh.Wait() }()
				receiveSoon(t, broken, "no holder is notified")
				assertNoReceive(t, ended, "the process did not wait")
				got, err := os.ReadFile(w.s.path("f"))
				require.NoError(t, err)
				assert.Equal(t, "f", string(got), "as it was leased")
				assert.ErrorIs(t, w.tryLease(), unix.EAGAIN, "while it is broken")
				release()
				require.NoError(t, receiveSoon(t, ended, "the process waits still"))
				got, err = os.ReadFile(w.s.path("f"))
				require.NoError(t, err)
				assert.Contains(t, string(got), "new")
				assert.NoError(t, w.tryLease(), "afterwards")
				release()
			})
		}
	}
}

// TestLeaseWriters checks that a file open for writing cannot be leased, and
// that the FS closes its own unused files.
func TestLeaseWriters(t *testing.T) {
	w := newLeaseTest(t, "")
	other, err := os.OpenFile(w.s.path("f"), os.O_WRONLY, 0)
	require.NoError(t, err)
	assert.ErrorIs(t, w.tryLease(), unix.EAGAIN)
	require.NoError(t, other.Close())
	su := vfs.Cred{UID: uint32(os.Geteuid())}
	write := func(how vfs.Stable) error {
		_, _, _, err := w.f.Write(t.Context(), &su, w.h, []byte("x"), 0, how)
		return err
	}
	require.NoError(t, write(vfs.Unstable))
	assert.ErrorIs(t, w.tryLease(), unix.EAGAIN, "not synced")
	_, err = w.f.Commit(t.Context(), &su, w.h, 0, 0)
	require.NoError(t, err)
	assert.NoError(t, w.tryLease())

	broken, release := w.lease()
	size := uint64(0)
	for what, change := range map[string]func() error{
		"write": func() error { return write(vfs.FileSync) },
		"cut": func() error {
			_, err := w.f.SetAttr(t.Context(), &su, w.h, vfs.SetAttr{Size: &size}, nil)
			return err
		},
		"create": func() error {
			_, err := w.f.Create(t.Context(), &su, w.f.Root(), "f", vfs.CreateHow{Attr: vfs.SetAttr{Size: &size}})
			return err
		},
	} {
		assert.ErrorIs(t, change(), unix.EAGAIN, what) // without waiting
		receiveSoon(t, broken, "the FS's own change causes no break")
		release()
		assert.NoError(t, change(), what)
		_, err = w.f.Commit(t.Context(), &su, w.h, 0, 0)
		require.NoError(t, err)
		broken, release = w.lease()
	}
	assertNoReceive(t, broken, "no writer")
	mode := uint32(0o640)
	_, err = w.f.SetAttr(t.Context(), &su, w.h, vfs.SetAttr{Mode: &mode}, nil)
	assert.NoError(t, err, "a lease is about data")
	release()
}

// TestLeaseSlowDisk checks that a slow sync of one file delays neither other
// uses of the file, nor leases.
func TestLeaseSlowDisk(t *testing.T) {
	vfstest.NeedRoot(t)
	w, tp := syncTestFS(t)
	f, other := w.walk("f"), w.walk("old")
	release, err := w.f.Lease(t.Context(), &w.c, other, vfs.LeaseData, func() {})
	require.NoError(t, err)
	write := func(i int) error {
		_, _, _, err := w.f.Write(t.Context(), &vfs.Cred{UID: 70001 + uint32(i), GID: 70001}, f, []byte("x"), 0, vfs.Unstable)
		return err
	}
	const writers = maxDirtyFiles
	for i := range writers {
		require.NoError(t, write(i))
	}
	syncing, free := make(chan struct{}), make(chan struct{})
	begin, let := sync.OnceFunc(func() { close(syncing) }), sync.OnceFunc(func() { close(free) })
	t.Cleanup(let)
	tp.setAnswer(func(string, int) error {
		begin()
		<-free
		return nil
	})
	over := runAsync(func() { assert.NoError(t, write(writers)) })
	receiveSoon(t, syncing, "no file can be closed for another")
	receiveSoon(t, runAsync(func() { assert.NoError(t, write(writers-1)) }), "an open file waits")
	receiveSoon(t, runAsync(func() {
		_, err := w.f.Lease(t.Context(), &w.c, f, vfs.LeaseData, func() {})
		assert.ErrorIs(t, err, unix.EAGAIN)
	}), "a lease request waits")
	receiveSoon(t, runAsync(release), "another file's lease waits")
	assertNoReceive(t, over, "an open does not wait for another file's data")
	let()
	receiveSoon(t, over, "the next open still waits")
}

// runAsync calls f, and returns a channel that is closed when f returns.
func runAsync(f func()) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		f()
	}()
	return c
}

// allNotified reports whether the holders of w's only lease are notified.
func (w *leaseTest) allNotified() (all bool) {
	l := &w.f.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, le := range l.byFD {
		all = le.broken
	}
	return all
}

// TestLeaseRemoved checks that a file removed by a local process, which breaks
// no lease, is released.
func TestLeaseRemoved(t *testing.T) {
	w := newLeaseTest(t, "")
	require.NoError(t, os.Link(w.s.path("f"), w.s.path("g")))
	broken, release := w.lease()
	require.NoError(t, os.Remove(w.s.path("f")))
	w.f.leases.checkLeased()
	assert.False(t, w.allNotified(), "it has a name still")
	require.NoError(t, os.Remove(w.s.path("g")))
	w.f.leases.checkLeased()
	w.f.leases.checkLeased() // notifies no holder twice
	receiveSoon(t, broken, "no holder is notified")
	assert.ErrorIs(t, w.tryLease(), unix.ESTALE)
	release()
	for range idleTicks {
		w.f.cache.sweepAll()
	}
	assert.Zero(t, leasedFDs.Load())
	assert.Nil(t, w.f.cache.objs[w.h], "open still")
}

// TestLeaseTick checks that a tick sweeps the leases.
func TestLeaseTick(t *testing.T) {
	w := newIdleLeaseTest(t, "", time.Millisecond)
	broken, release := w.lease()
	defer release()
	require.NoError(t, os.Remove(w.s.path("f")))
	receiveSoon(t, broken, "no holder is notified")
}

// TestLeaseSweep checks that a sweep of many leases takes several ticks, and
// checks each lease.
func TestLeaseSweep(t *testing.T) {
	w := newLeaseTest(t, "")
	w.lease()
	l := &w.f.leases
	l.mu.Lock()
	for fd := range l.byFD {
		l.unchecked = append(l.unchecked, fd)
	}
	for range maxLeaseSweep { // leases released in the meantime
		l.unchecked = append(l.unchecked, -1)
	}
	l.mu.Unlock()
	require.NoError(t, os.Remove(w.s.path("f")))
	l.checkLeased()
	assert.False(t, w.allNotified(), "more in a tick than allowed")
	assert.Len(t, l.unchecked, 1)
	l.checkLeased()
	assert.True(t, w.allNotified(), "the remainder is dropped")
	assert.Empty(t, l.unchecked)
}

// TestLeaseElsewhere checks that there are no leases if not only this host's
// processes change files, or if some of their changes break no lease, even if
// the kernel would give a lease.
func TestLeaseElsewhere(t *testing.T) {
	w := newLeaseTest(t, "")
	w.f.leases.allowed = false
	assert.ErrorIs(t, w.tryLease(), unix.EOPNOTSUPP)
	for name, magic := range map[string]uint32{
		"FUSE": unix.FUSE_SUPER_MAGIC, "NFS": unix.NFS_SUPER_MAGIC, "SMB": unix.SMB2_SUPER_MAGIC, "CIFS": unix.CIFS_SUPER_MAGIC, "9p": unix.V9FS_MAGIC,
		"Ceph": unix.CEPH_SUPER_MAGIC, "AFS": unix.AFS_FS_MAGIC, "GFS2": 0x01161970, "OCFS2": unix.OCFS2_SUPER_MAGIC, "overlayfs": unix.OVERLAYFS_SUPER_MAGIC,
		"unknown": 0x12345678,
	} {
		assert.False(t, traitsOf(magic).local, name)
	}
	for name, magic := range map[string]uint32{"ext4": unix.EXT4_SUPER_MAGIC, "btrfs": unix.BTRFS_SUPER_MAGIC, "f2fs": unix.F2FS_SUPER_MAGIC, "tmpfs": unix.TMPFS_MAGIC} {
		assert.True(t, traitsOf(magic).local, name)
	}
	vfstest.NeedRoot(t)
	f, err := Open(mountOverlay(t), tableKind())
	require.NoError(t, err)
	assert.False(t, f.leases.allowed)
	require.NoError(t, f.Close())
}

// mountOverlay mounts an overlayfs, and returns its directory. It has two files
// of the lower layer: a and b.
func mountOverlay(t *testing.T) (dir string) {
	base, err := os.MkdirTemp("/dev/shm", "nfsrdma")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(base)) })
	for _, d := range []string{"lower", "upper", "work", "all"} {
		require.NoError(t, os.Mkdir(filepath.Join(base, d), 0o755))
	}
	for _, name := range []string{"a", "b"} {
		require.NoError(t, os.WriteFile(filepath.Join(base, "lower", name), []byte(name), 0o644))
	}
	dir = filepath.Join(base, "all")
	mountLayers(t, dir)
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// mountLayers mounts the layers next to dir there.
func mountLayers(t *testing.T, dir string) {
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", filepath.Dir(dir))
	if err := unix.Mount("overlay", dir, "overlay", 0, options); err != nil {
		t.Skip("no overlayfs here: ", err)
	}
}

// TestLeaseRights checks that a caller who has lost the right to read gets no lease,
// although a descriptor from before is cached.
func TestLeaseRights(t *testing.T) {
	vfstest.NeedRoot(t)
	w := newLeaseTest(t, "")
	c := vfs.Cred{UID: 70001, GID: 70001}
	for _, scope := range []vfs.LeaseScope{vfs.LeaseData, vfs.LeaseAll, vfs.LeaseWrite} {
		require.NoError(t, os.Chmod(w.s.path("f"), 0o666))
		_, _, _, err := w.f.Read(t.Context(), &c, w.h, make([]byte, 1), 0)
		require.NoError(t, err)
		_, _, _, err = w.f.Write(t.Context(), &c, w.h, nil, 0, vfs.Unstable)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(w.s.path("f"), 0))
		_, err = w.f.Lease(t.Context(), &c, w.h, scope, func() {})
		assert.Equal(t, unix.EACCES, err)
	}
	assert.Zero(t, leasedFDs.Load())
}

// TestLeaseShared checks that one file may have several leases, and that the
// writer waits for the last.
func TestLeaseShared(t *testing.T) {
	w := newLeaseTest(t, "")
	first, releaseFirst := w.lease()
	second, releaseSecond := w.lease()
	_, releaseThird := w.lease()
	releaseThird()
	releaseThird()
	opened := w.writer("f")
	receiveSoon(t, first, "the first gets no notice")
	receiveSoon(t, second, "the second gets no notice")
	releaseFirst()
	releaseFirst()
	assertNoReceive(t, opened, "the writer did not wait for the second")
	releaseSecond()
	require.NoError(t, receiveSoon(t, opened, "the writer waits still"))
	assert.Zero(t, leasedFDs.Load())
}

// TestLeaseHolds checks that a leased file does not change: local writers wait,
// and writes of the FS itself return EAGAIN.
func TestLeaseHolds(t *testing.T) {
	w := newLeaseTest(t, "/dev/shm")
	su := vfs.Cred{UID: uint32(os.Geteuid())}
	local := func() error {
		f, err := os.OpenFile(w.s.path("f"), os.O_WRONLY|os.O_TRUNC, 0)
		if err == nil {
			_, err = fmt.Fprint(f, time.Now())
			err = errors.Join(err, f.Close())
		}
		return err
	}
	own := func() error {
		_, _, _, err := w.f.Write(t.Context(), &su, w.h, fmt.Append(nil, time.Now()), 0, vfs.FileSync)
		if err == unix.EAGAIN {
			return nil
		}
		return err
	}
	var holders, writers sync.WaitGroup
	grants := make(chan bool)
	for _, write := range []func() error{local, own} {
		writers.Go(func() {
			for range grants {
				assert.NoError(t, write())
			}
		})
	}
	for range 3 {
		holders.Go(func() {
			for n := 0; n < 100; {
				broken := make(chan struct{})
				release, err := w.f.Lease(t.Context(), &w.c, w.h, vfs.LeaseData, func() { close(broken) })
				if err != nil {
					assert.ErrorIs(t, err, unix.EAGAIN)
					continue
				}
				n++
				before, err := os.ReadFile(w.s.path("f"))
				assert.NoError(t, err)
				grants <- true
				<-broken
				after, err := os.ReadFile(w.s.path("f"))
				assert.NoError(t, err)
				assert.Equal(t, string(before), string(after))
				release()
			}
		})
	}
	holders.Wait()
	close(grants)
	writers.Wait()
	assert.Zero(t, leasedFDs.Load())
}

// writer opens a file for writing and closes it, on a separate thread.
func (w *testFS) writer(name string) <-chan error {
	c := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(w.s.path(name), os.O_WRONLY, 0)
		if err == nil {
			err = f.Close()
		}
		c <- err
	}()
	return c
}

// TestLeaseRefused checks that only readable regular files are leased.
func TestLeaseRefused(t *testing.T) {
	w := newLeaseTest(t, "")
	w.hostDir("d")
	for _, h := range []vfs.Handle{w.f.Root(), w.walk("d")} {
		_, err := w.f.Lease(t.Context(), &w.c, h, vfs.LeaseData, nil)
		assert.ErrorIs(t, err, unix.EOPNOTSUPP)
	}
	require.NoError(t, os.Chmod(w.s.path("f"), 0))
	if os.Geteuid() == 0 {
		assert.ErrorIs(t, w.tryLease(), unix.EACCES)
	}
	require.NoError(t, os.Remove(w.s.path("f")))
	assert.ErrorIs(t, w.tryLease(), unix.ESTALE)
	w.f.leases.max = 0
	w.hostFile("g")
	w.h = w.walk("g")
	assert.ErrorIs(t, w.tryLease(), unix.EMFILE)
	assert.Zero(t, leasedFDs.Load())
}

// TestLeaseClose checks that Close lets waiting writers continue, and that a
// later release is harmless.
func TestLeaseClose(t *testing.T) {
	w := newLeaseTest(t, "")
	broken, release := w.lease()
	opened := w.writer("f")
	receiveSoon(t, broken, "no holder is notified")
	require.NoError(t, w.f.Close())
	require.NoError(t, receiveSoon(t, opened, "the writer waits"))
	release()
	assert.Zero(t, leasedFDs.Load())
}

// TestLeaseNameless checks that a file removed while leased is closed at the
// tick after the lease's end.
func TestLeaseNameless(t *testing.T) {
	w := newLeaseTest(t, "")
	fds := w.f.cache.fds.Load()
	broken, release := w.lease()
	require.NoError(t, os.Remove(w.s.path("f")))
	assert.ErrorIs(t, w.getattr(w.h), unix.ESTALE)
	assertNoReceive(t, broken, "a lease is about data")
	release()
	assert.GreaterOrEqual(t, w.f.cache.fds.Load(), fds, "the lease's return closes the file")
	w.f.cache.sweepAll()
	assert.Equal(t, fds-1, w.f.cache.fds.Load())
}

// TestLeaseOwner checks that root without CAP_LEASE leases a file as its owner, and that a daemon
// that cannot become the owner gets none.
func TestLeaseOwner(t *testing.T) {
	vfstest.NeedRoot(t)
	w := newLeaseTest(t, "")
	require.NoError(t, os.Chown(w.s.path("f"), 70000, 70000))
	onThread(func() {
		require.NoError(t, dropCapability(unix.CAP_LEASE))
		assert.NoError(t, w.tryLease())
		w.f.switches = false
		assert.ErrorIs(t, w.tryLease(), unix.EOPNOTSUPP)
		w.f.switches = true
	})
	assert.Zero(t, leasedFDs.Load())
}
