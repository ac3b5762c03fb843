//go:build linux

package posix

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// TestLockNeedsNoDescriptor counts the descriptors that locks need besides those of an open file.
func TestLockNeedsNoDescriptor(t *testing.T) {
	for _, tt := range []struct {
		name                     string
		access                   vfs.OpenAccess
		shared, exclusive, mixed int
	}{
		{"not open", 0, 1, 1, 1},
		{"open to read", vfs.OpenRead, 0, 1, 1},
		{"open to write", vfs.OpenWrite, 1, 0, 0},
		{"open to read and write", openBoth, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTestFS(t, tableKind())
			w.hostFile("f")
			_, fd := w.description("f")
			h := w.walk("f")
			o, err := w.f.OpenFile(t.Context(), &vfs.Cred{UID: uint32(os.Geteuid())}, h, tt.access)
			require.NoError(t, err)
			_, _, _, err = w.f.Read(t.Context(), &vfs.Cred{UID: uint32(os.Geteuid())}, h, make([]byte, 1), 0)
			require.NoError(t, err) // the descriptor that remains is no File's
			before := openFDs(t)
			l := w.openLocks(h)
			low, high := locks.Range{End: 4}, locks.Range{Start: 5, End: 9}
			check := func(why string, need int, atLow, atHigh locks.Kind) {
				t.Helper()
				assert.Equal(t, need, openFDs(t)-before, why)
				assert.EqualValues(t, need, w.f.cache.locked.Load(), why)
				assert.Equal(t, [2]locks.Kind{atLow, atHigh}, [2]locks.Kind{kindAt(t, fd, 0), kindAt(t, fd, 5)}, why)
			}
			require.True(t, mustLock(t, l, low, locks.Shared))
			check("shared", tt.shared, locks.Shared, locks.None)
			require.True(t, mustLock(t, l, high, locks.Exclusive))
			check("both", tt.mixed, locks.Shared, locks.Exclusive)
			require.True(t, mustLock(t, l, low, locks.Exclusive))
			check("exclusive", tt.exclusive, locks.Exclusive, locks.Exclusive)
			require.True(t, mustLock(t, l, high, locks.None))
			check("unlocked", tt.exclusive, locks.Exclusive, locks.None)
			require.True(t, mustLock(t, l, low, locks.Shared))
			check("weaker", tt.shared, locks.Shared, locks.None)
			l.Close()
			check("closed", 0, locks.None, locks.None)
			o.Close()
		})
	}
}

// TestLockOutlivesFile closes the Files whose descriptor has locks: they stay until they are
// unlocked, as do the descriptors, which count for the client that opened the file.
func TestLockOutlivesFile(t *testing.T) {
	for _, kind := range []locks.Kind{locks.Shared, locks.Exclusive} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			w := newTestFS(t, tableKind())
			w.hostFile("f")
			_, fd := w.description("f")
			h := w.walk("f")
			self, ctx := vfs.Cred{UID: uint32(os.Geteuid())}, vfs.WithClient(t.Context(), netip.MustParseAddr("192.0.2.1"))
			before := heldFDs.Load()
			var opened [2]vfs.Opened
			for i := range opened {
				var err error
				opened[i], err = w.f.OpenFile(ctx, &self, h, openBoth)
				require.NoError(t, err)
			}
			l := w.openLocks(h)
			require.True(t, mustLock(t, l, locks.Range{End: 9}, kind))
			for i := range opened {
				assert.EqualValues(t, 3, heldFDs.Load()-before, "%d closed", i)
				opened[i].Close()
			}
			assert.EqualValues(t, 2, heldFDs.Load()-before, "one File stays")
			assert.Equal(t, 1, w.f.cache.shares.opens.Taken())
			for range 2 * idleTicks {
				w.f.cache.sweepAll()
			}
			assert.Equal(t, kind, kindAt(t, fd, 9))

			again, err := w.f.OpenFile(ctx, &self, h, openBoth)
			require.NoError(t, err)
			again.Close()
			assert.EqualValues(t, 2, heldFDs.Load()-before)

			require.NoError(t, os.Remove(w.s.path("f")))
			require.True(t, mustLock(t, l, locks.Range{Start: 5, End: 9}, locks.None))
			assert.Equal(t, [2]locks.Kind{kind, locks.None}, [2]locks.Kind{kindAt(t, fd, 4), kindAt(t, fd, 5)})
			l.Close()
			assert.Equal(t, locks.None, kindAt(t, fd, 0))
			assert.Equal(t, before, heldFDs.Load())
			assert.Zero(t, w.f.cache.shares.opens.Taken())
			assert.Equal(t, unix.ESTALE, w.getattr(h), "the removed file is freed")
		})
	}
}

// TestLockManyFiles lets one client lock all files that it may have open: that takes nothing from
// another client that locks.
func TestLockManyFiles(t *testing.T) {
	checkCleanup(t)
	s := newExportedDir(t, "", Options{TableHandles: true, MaxFiles: 1024})
	w := &testFS{t, s, s.open(t), user()}
	self := vfs.Cred{UID: uint32(os.Geteuid())}
	one := vfs.WithClient(t.Context(), netip.MustParseAddr("192.0.2.1"))
	other := vfs.WithClient(t.Context(), netip.MustParseAddr("192.0.2.2"))
	for i := range 1024 / 2 / maxOpenCost / 2 / 2 { // its share, to read and to write
		_, o, err := w.f.CreateFile(one, &self, w.f.Root(), fmt.Sprint(i), vfs.CreateHow{Mode: vfs.Guarded}, openBoth)
		require.NoError(t, err)
		require.NotNil(t, o.Write)
		defer o.Close()
		l, err := w.f.OpenLocks(one, w.walk(fmt.Sprint(i)))
		require.NoError(t, err)
		defer l.Close()
		require.True(t, mustLock(t, l, everything, locks.Exclusive))
	}
	assert.Zero(t, w.f.cache.locked.Load())
	assert.Zero(t, w.f.cache.shares.locks.Taken())
	w.hostFile("f")
	l, err := w.f.OpenLocks(other, w.walk("f"))
	require.NoError(t, err)
	defer l.Close()
	assert.True(t, mustLock(t, l, everything, locks.Exclusive))
}

// TestLockAndWriteLease checks that a file whose descriptor has locks gets no write lease, which
// would replace the description.
func TestLockAndWriteLease(t *testing.T) {
	w := newWriterLeaseTest(t, "")
	read := w.openFile(w.h, vfs.OpenRead)
	defer read.Close()
	l := w.openLocks(w.h)
	require.True(t, mustLock(t, l, locks.Range{End: 9}, locks.Shared))
	require.Zero(t, w.f.cache.locked.Load())
	assert.Equal(t, unix.EAGAIN, w.tryLeaseTo(vfs.LeaseWrite))
	l.Close()
	assert.NoError(t, w.tryLeaseTo(vfs.LeaseWrite))
}

// TestLockUnderWriteLease locks a file that is open under a write lease: the locks have a descriptor
// of their own, because the end of the lease replaces the File's description.
func TestLockUnderWriteLease(t *testing.T) {
	for _, openedBefore := range []bool{true, false} {
		t.Run(fmt.Sprint(openedBefore), func(t *testing.T) {
			w := newWriterLeaseTest(t, "")
			var o vfs.Opened
			if openedBefore {
				o = w.openFile(w.h, openBoth)
			}
			_, release := w.leaseOn("f", vfs.LeaseWrite)
			if !openedBefore {
				o = w.openFile(w.h, openBoth)
			}
			defer o.Close()
			l := w.openLocks(w.h)
			require.True(t, mustLock(t, l, locks.Range{End: 9}, locks.Exclusive))
			assert.EqualValues(t, 1, w.f.cache.locked.Load())
			release()
			_, fd := w.description("f")
			for _, kind := range []locks.Kind{locks.Exclusive, locks.Shared, locks.Exclusive, locks.Shared} {
				require.True(t, mustLock(t, l, locks.Range{End: 9}, kind))
				assert.Equal(t, kind, kindAt(t, fd, 9))
			}
			l.Close()
			assert.Equal(t, locks.None, kindAt(t, fd, 9))
		})
	}
}
