//go:build linux

package leasesignal

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestWatcher checks that a broken lease is reported with its descriptor, and that a signal without
// one reports all leases.
func TestWatcher(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "nfsrdma")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	fds, overflows := make(chan int, 1), make(chan struct{}, 1)
	w, err := Start(func(fd int) { fds <- fd }, func() { overflows <- struct{}{} })
	require.NoError(t, err)
	defer w.Stop()
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, w.SetOwner(fd))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	require.NoError(t, err)
	_, err = unix.Open(name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	assert.ErrorIs(t, err, unix.EAGAIN)
	assert.Equal(t, fd, receiveSoon(t, fds, "the break is not reported"))
	assert.Empty(t, overflows)
	require.NoError(t, unix.Tgkill(os.Getpid(), w.tid, OverflowSignal))
	receiveSoon(t, overflows, "the overflow is not reported")
}

func receiveSoon[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Second):
		t.Fatal(what)
	}
	return v
}
