//go:build linux

package posix

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// sweepAll is sweep, and waits until all is closed.
func (c *cache) sweepAll() {
	c.closeIdle()
	c.closing.Wait()
}

// setLimit sets how many descriptors may be open, whatever RLIMIT_NOFILE is.
func (c *cache) setLimit(n int64) { c.max, c.idle, c.budget = n, n, n }

// TestWritersOfOneFile checks that callers who write one file in turn cause no sync for
// each write, however many they are.
func TestWritersOfOneFile(t *testing.T) {
	vfstest.NeedRoot(t)
	for _, users := range []uint32{maxObjectFiles + 1, maxDirtyFiles} {
		w, tp := syncTestFS(t)
		w.f.cache.setLimit(4 * maxDirtyFiles)
		for range 3 {
			for u := range users {
				require.NoError(t, w.write(&vfs.Cred{UID: 70000 + u, GID: 70000 + u}, vfs.Unstable))
			}
		}
		tp.mu.Lock()
		assert.Empty(t, tp.log, "%d users", users)
		tp.mu.Unlock()
		require.NoError(t, w.commit(&vfs.Cred{UID: 70000, GID: 70000}))
	}
}

// hangingFile returns a testFS in which the sync of the file f hangs until the returned function is
// called, and dirties f.
func hangingFile(t *testing.T) (w *testFS, tp *syncRecorder, syncing <-chan struct{}, proceed func()) {
	w, tp = syncTestFS(t)
	require.NoError(t, w.write(&w.c, vfs.Unstable))
	began, over := make(chan struct{}, 100), make(chan struct{})
	var f unix.Stat_t
	require.NoError(t, unix.Stat(w.s.path("f"), &f))
	tp.setAnswer(func(_ string, fd int) error {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Ino == f.Ino {
			began <- struct{}{}
			<-over
		}
		return nil
	})
	return w, tp, began, func() { close(over) }
}

// TestSweepHanging checks that a file whose sync hangs keeps neither runTicks nor
// other files from being closed.
func TestSweepHanging(t *testing.T) {
	w, _, syncing, proceed := hangingFile(t)
	f, old := w.walk("f"), w.walk("old")
	_, _, _, err := w.f.Read(t.Context(), &w.c, old, make([]byte, 1), 0)
	require.NoError(t, err)
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		for range 3 * idleTicks {
			w.f.cache.closeIdle()
		}
	}()
	receiveSoon(t, syncing, "f is not synced")
	select {
	case <-swept:
	case <-time.After(5 * time.Second):
		t.Error("runTicks waits for the disk")
	}
	assert.False(t, w.f.cache.hasObject(old))
	proceed()
	<-swept
	w.f.cache.closing.Wait()
	assert.False(t, w.f.cache.hasObject(f))
}

// TestSweepClosers checks that dirty files for which there is no goroutine are closed
// later.
func TestSweepClosers(t *testing.T) {
	w, _, _, proceed := hangingFile(t)
	require.True(t, w.f.cache.closers.TryAcquire(maxClosers))
	for range 3 * idleTicks {
		w.f.cache.closeIdle()
	}
	f := w.walk("f")
	assert.True(t, w.f.cache.hasObject(f))
	w.f.cache.closers.Release(maxClosers)
	proceed()
	for range 3 * idleTicks {
		w.f.cache.sweepAll()
	}
	assert.False(t, w.f.cache.hasObject(f))
}

// TestShrinkHanging checks that LOOKUP and READ evict without syncing files that others have
// written.
func TestShrinkHanging(t *testing.T) {
	w, tp, _, proceed := hangingFile(t)
	defer proceed()
	for i := range 2 * minMaxFiles {
		require.NoError(t, os.WriteFile(w.s.path(fmt.Sprint(i)), []byte("x"), 0o644))
	}
	w.f.cache.max = minMaxFiles
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 2 * minMaxFiles {
			_, _, _, err := w.f.Read(t.Context(), &w.c, w.walk(fmt.Sprint(i)), make([]byte, 1), 0)
			assert.NoError(t, err)
		}
	}()
	receiveSoon(t, done, "a reader waits for the disk")
	assert.Empty(t, tp.takeCalls(w))
	assert.LessOrEqual(t, w.f.cache.fds.Load(), int64(minMaxFiles+3))
	assert.True(t, w.f.cache.hasObject(w.walk("f")))
}

// TestShrinkSteps checks that an eviction passes a bounded number of objects that it may not close,
// and that later calls go on from there.
func TestShrinkSteps(t *testing.T) {
	w := newTestFS(t, tableKind())
	c := &w.f.cache
	c.setLimit(4 * maxPassed)
	use := func(name string) *object {
		w.hostFile(name)
		o, err := w.f.getObject(w.walk(name))
		require.NoError(t, err)
		o.hot.Store(false)
		return o
	}
	for i := range 3*maxPassed - 1 {
		defer w.f.putObject(use(fmt.Sprint(i)))
	}
	idle := use("idle")
	w.f.putObject(idle)
	c.setLimit(c.fds.Load() - 1)
	for range 2 {
		c.closeExcess(true)
		require.True(t, c.hasObject(idle.h))
	}
	c.closeExcess(true)
	assert.False(t, c.hasObject(idle.h))
	assert.Equal(t, c.max, c.fds.Load())
}
