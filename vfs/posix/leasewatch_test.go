//go:build linux

package posix

import (
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix/internal/leasesignal"
)

// TestLeaseMany leases ten thousand files, and writes to all of them at once.
// It checks that the cache neither closes nor counts the files.
func TestLeaseMany(t *testing.T) {
	files := int(min(maxFiles()/2, 10000))
	w := newLeaseTest(t, "/dev/shm")
	var told atomic.Int64
	releases := make([]func(), files)
	names := make([]string, files)
	for i := range files {
		names[i] = fmt.Sprint(i)
		w.hostFile(names[i])
		h := w.walk(names[i])
		var err error
		releases[i], err = w.f.Lease(t.Context(), &w.c, h, vfs.LeaseData, func() { told.Add(1); releases[i]() })
		require.NoError(t, err, i)
	}
	assert.EqualValues(t, files, leasedFDs.Load())
	for range idleTicks + 1 {
		w.f.cache.sweepAll()
	}
	assert.LessOrEqual(t, w.f.cache.fds.Load(), int64(1+1), "the root, and f")
	for _, name := range names {
		require.NoError(t, receiveSoon(t, w.writer(name), "a writer waits"))
	}
	assert.EqualValues(t, files, told.Load())
	assert.Zero(t, leasedFDs.Load())
}

// TestLeaseSignals checks that no break is lost if signals cannot be queued.
func TestLeaseSignals(t *testing.T) {
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_SIGPENDING, &old))
	t.Cleanup(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_SIGPENDING, &old)) })
	// Only the watcher receives the signals.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, leasesignal.Signal, leasesignal.OverflowSignal)
	t.Cleanup(func() { signal.Stop(heard) })
	for _, limit := range []uint64{0, 3} {
		w := newLeaseTest(t, "")
		few := old
		few.Cur = limit
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_SIGPENDING, &few))
		const files = 50
		var releases []func()
		broken := make(chan int, files)
		for i := range files {
			name := fmt.Sprint(i)
			w.hostFile(name)
			release, err := w.f.Lease(t.Context(), &w.c, w.walk(name), vfs.LeaseData, func() { broken <- i })
			require.NoError(t, err)
			releases = append(releases, release)
		}
		w.f.leases.mu.Lock() // the watcher blocks at the first lease
		var ends []<-chan error
		for i := range files {
			ends = append(ends, w.writer(fmt.Sprint(i)))
		}
		require.Eventually(t, func() bool {
			n := 0
			for fd := range w.f.leases.byFD {
				if leaseOf(fd) != unix.F_RDLCK {
					n++
				}
			}
			return n == files
		}, 10*time.Second, time.Millisecond)
		w.f.leases.mu.Unlock()
		for range files {
			i := receiveSoon(t, broken, "a break is lost")
			releases[i]()
			require.NoError(t, receiveSoon(t, ends[i], "a writer waits"))
		}
		require.NoError(t, w.f.Close())
	}
	assertNoReceive(t, heard, "another thread got the signal")
}

func TestLeaseBreakTime(t *testing.T) {
	d, err := LeaseBreakTime()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, d, time.Duration(0))
}
