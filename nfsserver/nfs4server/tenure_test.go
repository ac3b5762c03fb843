package nfs4server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

func newTenure() *tenure.Tenure {
	word := tenure.Now() + int64(time.Hour)
	return tenure.New(&word)
}

// TestNoLateCallback checks that clients are not called after the end of a tenure: the next host calls
// them.
func TestNoLateCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, back := newDelegServer(t)
		g.s.tenure = newTenure()
		told := back.lockNotices()
		opened, put := g.openFile("f", nfs4.ShareBoth, 0)
		o, _ := g.newClientAt("other", "192.0.2.2:700")
		otherOpen, otherPut := o.openFile("f", nfs4.ShareBoth, 0)
		held, st := o.lockWaiting(otherPut, otherOpen.StateID, nfs4.LockWriteWait, "holder")
		require.Equal(t, nfs4.OK, st)
		_, st = g.lockWaiting(put, opened.StateID, nfs4.LockWriteWait, "first")
		require.Equal(t, nfs4.ErrDenied, st)
		g.s.tenure.End()
		o.unlockAll(otherPut, held)
		time.Sleep(recallLease / 2)
		assert.Empty(t, told)
	})
}

// TestNoLateCopy checks that a copy does not continue after the end of a tenure, and that its client is
// not told of an end.
func TestNoLateCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fs, _, src, dst, ended := newOffloadServer(t)
		g.s.tenure = newTenure()
		fs.from.Store(20 << 20)
		res := g.copyWholeFile(src, dst, false)
		require.True(t, res.Response.HasCallback)
		synctest.Wait() // it is reading
		g.s.tenure.End()
		close(fs.release)
		time.Sleep(time.Minute)
		got, st := g.offloadStatus(dst, res.Response.Callback)
		require.Equal(t, nfs4.OK, st)
		assert.False(t, got.Done)
		assert.LessOrEqual(t, got.Count, uint64(20<<20+maxBufferLen))
		assert.Empty(t, ended)
	})
}
