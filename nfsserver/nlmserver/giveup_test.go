package nlmserver

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestWaitersOfDeadHost turns off a host whose processes wait for one lock: all of them
// together delay the next client no longer than one of them would.
func TestWaitersOfDeadHost(t *testing.T) {
	for _, processes := range []int{1, 2, 20} {
		synctest.Test(t, func(t *testing.T) {
			g := newTestServer(t)
			holder, live := g.newClient("192.0.2.1", "holder"), g.newClient("192.0.2.3", "live")
			require.Equal(t, nlm4.Granted, holder.tryLock(true, 0, 0))
			for i := range processes {
				require.Equal(t, nlm4.Blocked, g.newClient("192.0.2.2", "dead").otherProcess(int32(i)).waitLock(true, 0, 0))
				require.Equal(t, nlm4.Blocked, g.newClient("192.0.2.2", "dead too").otherProcess(int32(i)).waitLock(true, 0, 0))
			}
			require.Equal(t, nlm4.Blocked, live.waitLock(true, 0, 0))
			g.hostAt("192.0.2.2").setDown(true)
			start := time.Now()
			require.Equal(t, nlm4.Granted, holder.unlockRange(0, 0))
			for live.waitLock(true, 0, 0) != nlm4.Granted {
				require.Less(t, time.Since(start), 2*grantTime, "%d processes", processes)
				time.Sleep(30 * time.Second) // Linux's polling interval
			}
		})
	}
}

// A fakeHangingFS is a file system in which locks of some files hang.
type fakeHangingFS struct {
	*mem.FS
	files map[vfs.Handle]bool
	hangs bool
	end   chan struct{}
}

func (f *fakeHangingFS) OpenLocks(_ context.Context, h vfs.Handle) (vfs.FileLocks, error) {
	return fakeHangingLocks{f, f.files[h]}, nil
}

type fakeHangingLocks struct {
	fs   *fakeHangingFS
	file bool
}

func (l fakeHangingLocks) SetLock(_ locks.Range, kind locks.Kind) (bool, error) {
	if kind != locks.None && l.file && l.fs.hangs {
		<-l.fs.end
	}
	return true, nil
}

func (fakeHangingLocks) TestLock(locks.Range, locks.Kind) (locks.Range, locks.Kind, error) {
	return locks.Range{}, locks.None, nil
}

func (fakeHangingLocks) Close() {}

// TestGrantBesideHungFile lets a client wait for locks of files of which some hang: it
// gets the lock of a file that does not, at once if few hang; and if many do, others get
// the bytes that are free.
func TestGrantBesideHungFile(t *testing.T) {
	for _, many := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			fs := &fakeHangingFS{FS: mem.New(mem.Options{Size: 1 << 20}), files: make(map[vfs.Handle]bool), end: make(chan struct{})}
			g := newTestServer(t, func(_ *nfs4state.Config, _ *Config, r *exportset.Config) { r.Exports[0].FS = fs })
			defer close(fs.end)
			holder, waiter, other := g.newClient("192.0.2.1", "holder"), g.newClient("192.0.2.2", "waiter"), g.newClient("192.0.2.3", "other")
			on := func(c *testClient, fh []byte) *testClient { at := *c; at.lock.Handle = fh; return &at }
			files := make([][]byte, 1)
			if many {
				files = make([][]byte, maxLockingFiles)
			}
			for i := range files {
				raw := g.makeFile(fs, fmt.Sprint("hung", i), 0o644)
				h, _ := vfs.NewHandle(raw)
				fs.files[h], files[i] = true, g.fileHandle(raw)
				require.Equal(t, nlm4.Granted, on(holder, files[i]).tryLock(true, 0, 10))
				for p := range 2 {
					require.Equal(t, nlm4.Blocked, on(waiter, files[i]).otherProcess(int32(p)).waitLock(true, uint64(5*p), 5))
				}
			}
			require.Equal(t, nlm4.Granted, holder.tryLock(true, 0, 10))
			require.Equal(t, nlm4.Blocked, waiter.otherProcess(99).waitLock(true, 0, 10))
			fs.hangs = true
			for _, fh := range files {
				require.Equal(t, nlm4.Granted, on(holder, fh).unlockRange(0, 10))
			}
			time.Sleep(time.Second)
			require.Equal(t, nlm4.Granted, holder.unlockRange(0, 10))
			synctest.Wait()
			if !many {
				assert.Len(t, g.hostAt("192.0.2.2").takeGranted(), 1)
				return
			}
			start := time.Now()
			for other.waitLock(true, 0, 10) != nlm4.Granted {
				require.Less(t, time.Since(start), testLease)
				time.Sleep(30 * time.Second)
			}
		})
	}
}
