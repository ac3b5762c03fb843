//go:build linux

package posix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// TestParseLocks reads lines of Linux 6.1's /proc/locks: a waiter is behind the lock that is in its way.
// In another PID namespace the process has the number 0.
func TestParseLocks(t *testing.T) {
	const content = `1: POSIX  ADVISORY  WRITE 917 00:19:1103 0 EOF
1: -> POSIX  ADVISORY  WRITE 918 00:19:1103 0 EOF
2: OFDLCK ADVISORY  READ -1 08:01:131 0 0
3: OFDLCK ADVISORY  WRITE -1 fe:00:9981176 0 EOF
3: -> POSIX  ADVISORY  READ  21812 fe:00:9981176 5 5
3:  -> POSIX  ADVISORY  WRITE 0 fe:00:9981176 5 5
4: FLOCK  ADVISORY  WRITE 20557 fe:00:77 0 EOF
4: -> FLOCK  ADVISORY  WRITE 21812 fe:00:77 0 EOF
`
	inodes, shown := parseLocks([]byte(content))
	assert.Equal(t, map[uint64]struct{}{9981176: {}}, inodes)
	assert.True(t, shown)
	for n := range content {
		parseLocks([]byte(content[:n]))
	}
}

// TestLocksHidden checks that it is unknown who waits if /proc/locks cannot be read, or does not
// have the server's own locks.
func TestLocksHidden(t *testing.T) {
	const others = "1: FLOCK  ADVISORY  WRITE 917 00:19:1103 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 918 00:19:1103 0 EOF\n"
	const own = "2: OFDLCK ADVISORY  READ -1 08:01:131 0 0\n"
	for _, tt := range []struct {
		content string
		err     error
		want    error
	}{
		{"", unix.ENOENT, unix.ENOENT},
		{"", nil, errLocksHidden},
		{others, nil, errLocksHidden},
		{others + own, nil, nil},
	} {
		w := lockWaits{readFile: func(string) ([]byte, error) { return []byte(tt.content), tt.err }}
		for range 2 {
			waits, err := w.isWaiting(1103)
			assert.False(t, waits)
			assert.Equal(t, tt.want, err, tt.content)
		}
	}
}

// TestLockWaited checks that a lock of another description that waits for one of FileLocks is
// seen, and one that is only tried is not.
func TestLockWaited(t *testing.T) {
	w := newTestFS(t, tableKind())
	w.hostFile("f")
	h := w.walk("f")
	l := w.openLocks(h)
	defer l.Close()
	require.True(t, mustLock(t, l, everything, locks.Exclusive))
	key, err := w.f.AppendKey(nil, h)
	require.NoError(t, err)
	waited := func() bool {
		waitedLocks.mu.Lock()
		waitedLocks.read = time.Time{}
		waitedLocks.mu.Unlock()
		is, err := w.f.LockWaited(key)
		require.NoError(t, err)
		return is
	}
	try, fd := w.description("f")
	assert.False(t, try(everything, locks.Shared))
	assert.False(t, waited())
	locked := make(chan error)
	go func() {
		lk := flockOf(locks.Range{Start: 3, End: 4}, locks.Shared)
		locked <- fcntlLock(fd, unix.F_OFD_SETLKW, &lk)
	}()
	require.Eventually(t, waited, 10*time.Second, time.Millisecond)
	require.True(t, mustLock(t, l, everything, locks.None))
	require.NoError(t, <-locked)
	assert.False(t, waited())
}

// TestLockWaitedElsewhere checks that waiters are not reported on a file system that may keep its
// locks outside this kernel.
func TestLockWaitedElsewhere(t *testing.T) {
	for _, fsType := range []uint32{unix.FUSE_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, 0x12345} {
		w := newTestFS(t, Options{TableHandles: true, fsType: fsType})
		w.hostFile("f")
		key, err := w.f.AppendKey(nil, w.walk("f"))
		require.NoError(t, err)
		_, err = w.f.LockWaited(key)
		assert.ErrorIs(t, err, unix.EOPNOTSUPP, fsType)
	}
}

// TestLockWaitEnds checks that a process that has stopped waiting does not count, even if checks of
// other files share what was read.
func TestLockWaitEnds(t *testing.T) {
	const lock, waiter = "1: OFDLCK ADVISORY  WRITE -1 fe:00:7 0 EOF\n", "1: -> POSIX  ADVISORY  WRITE 918 fe:00:7 0 EOF\n"
	content, reads := lock+waiter, 0
	w := lockWaits{readFile: func(string) ([]byte, error) { reads++; return []byte(content), nil }}
	check := func(ino uint64, want bool, wantReads int) {
		t.Helper()
		waits, err := w.isWaiting(ino)
		require.NoError(t, err)
		assert.Equal(t, want, waits)
		assert.Equal(t, wantReads, reads)
	}
	check(8, false, 1)
	check(9, false, 1)
	check(7, true, 2)
	content = lock
	check(7, false, 3)
}
