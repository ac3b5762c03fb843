//go:build linux

package posix

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestCloneOverLentData checks that no clone changes data that is being sent, also through another
// export, and that what is read while a clone runs, or has to wait, is copied at once (R7862-15.13-6).
// Slow readers delay a clone only for some time.
func TestCloneOverLentData(t *testing.T) {
	for _, through := range []string{"the same export", "another export"} {
		t.Run(through, func(t *testing.T) {
			r := newWindowTest(t)
			require.NoError(t, os.Chmod(r.s.path("f"), 0o666))
			reader := r
			if through == "another export" {
				reader = r.openAgain()
			}
			lend := func() *buf.Buf {
				b, _ := reader.mapped(windowLen, 1<<20)
				return b
			}
			isLent := func() bool {
				b := lend()
				if b != nil {
					b.Release()
				}
				return b != nil
			}
			clones := 0
			id := r.f.idOf(inodeOfFile(t, r.s.path("f")))
			r.f.cloneAlign = 4096
			r.f.cloneRange = func(int, *unix.FileCloneRange) error {
				clones++
				lending.targets[id].until, lending.sweepAt = 0, 0 // it takes longer than unlentTime
				assert.False(t, isLent(), "R7862-15.13-6: the clone runs")
				return nil
			}
			part := func(off uint64) vfs.Part { return vfs.Part{Handle: r.h, Offset: off} }
			clone := func() error { return r.f.CloneRange(t.Context(), &r.c, part(0), part(windowLen), 4096) }

			lent := lend()
			require.NotNil(t, lent)
			require.ErrorIs(t, clone(), unix.EAGAIN, "R7862-15.13-6")
			assert.False(t, isLent(), "R7862-15.13-6: the clone is tried again")
			lent.Release()
			require.NoError(t, clone())
			assert.Equal(t, 1, clones)
			assert.True(t, isLent(), "the clone has ended")

			lent = lend()
			require.ErrorIs(t, clone(), unix.EAGAIN)
			lending.targets[id].since -= maxLentWait
			require.NoError(t, clone(), "the reader is slow")
			assert.Equal(t, 2, clones)

			require.ErrorIs(t, clone(), unix.EAGAIN)
			lending.targets[id].until, lending.sweepAt = 0, 0
			assert.True(t, isLent(), "no client tries again")
			lent.Release()
			assert.Empty(t, lending.targets)
		})
	}
}

// openAgain returns the same file in another export of the same directory.
func (r *windowTest) openAgain() *windowTest {
	again := *r
	s := *r.s
	s.o.StateDir = r.TempDir()
	again.s = &s
	again.f = s.open(r.T)
	var err error
	again.h, _, _, err = again.f.Lookup(r.Context(), &r.c, again.f.Root(), "f")
	require.NoError(r, err)
	return &again
}

// inodeOfFile returns a file's inode number.
func inodeOfFile(t *testing.T, path string) uint64 {
	var st unix.Stat_t
	require.NoError(t, unix.Stat(path, &st))
	return st.Ino
}
