//go:build linux

package posix

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestCloneOverLentData checks that no clone changes data that is being sent, and that what is
// read meanwhile is copied at once (R7862-15.13-6). Slow readers delay a clone only for some time.
func TestCloneOverLentData(t *testing.T) {
	r := newWindowTest(t)
	require.NoError(t, os.Chmod(r.s.path("f"), 0o666))
	r.f.cloneAlign = 4096
	clones := 0
	r.f.cloneRange = func(int, *unix.FileCloneRange) error {
		clones++
		return nil
	}
	part := func(off uint64) vfs.Part { return vfs.Part{Handle: r.h, Offset: off} }
	clone := func() error { return r.f.CloneRange(t.Context(), &r.c, part(0), part(windowLen), 4096) }
	isLent := func() bool {
		b, _ := r.mapped(windowLen, 1<<20)
		if b != nil {
			b.Release()
		}
		return b != nil
	}
	lent, _ := r.mapped(windowLen, 1<<20)
	require.NotNil(t, lent)
	require.ErrorIs(t, clone(), unix.EAGAIN, "R7862-15.13-6")
	assert.False(t, isLent(), "R7862-15.13-6")
	lent.Release()
	require.NoError(t, clone())
	assert.False(t, isLent(), "R7862-15.13-6: the clone may still run")
	assert.Equal(t, 1, clones)

	o, err := r.f.getObject(r.h)
	require.NoError(t, err)
	defer r.f.putObject(o)
	o.unlentUntil = time.Since(started)
	lent, _ = r.mapped(windowLen, 1<<20)
	require.NotNil(t, lent, "the time is over")
	require.ErrorIs(t, clone(), unix.EAGAIN)
	o.unlentSince -= maxLentWait
	require.NoError(t, clone(), "the reader is slow")
	lent.Release()
	assert.Equal(t, 2, clones)
}
