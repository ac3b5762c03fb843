package nlmserver

import (
	"context"
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

// fakeSlowFS is a file system that locks a file on the host when it receives from
// answers.
type fakeSlowFS struct {
	vfs.FS
	answers chan struct{}
}

func (s *fakeSlowFS) OpenLocks(context.Context, vfs.Handle) (vfs.FileLocks, error) {
	return fakeSlowLocks(s.answers), nil
}

type fakeSlowLocks chan struct{}

func (l fakeSlowLocks) SetLock(locks.Range, locks.Kind) (bool, error) {
	<-l
	return true, nil
}

func (l fakeSlowLocks) TestLock(r locks.Range, _ locks.Kind) (locks.Range, locks.Kind, error) {
	return r, locks.None, nil
}

func (l fakeSlowLocks) Close() {}

// TestCloseMeetsStorage checks that Close waits for all goroutines except those that hanging
// storage blocks.
func TestCloseMeetsStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakeSlowFS{FS: mem.New(mem.Options{Size: 1 << 20}), answers: make(chan struct{}, 1)}
		g := newTestServer(t, func(_ *nfs4state.Config, _ *Config, c *exportset.Config) { c.Exports[0].FS = fs })
		a, b := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b")
		fs.answers <- struct{}{}
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
		require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 1))
		require.Equal(t, nlm4.Granted, a.unlockRange(0, 1))
		synctest.Wait() // the grant's lock waits for the host
		before := time.Now()
		g.s.Close()
		assert.Equal(t, closeTime, time.Since(before))
		close(fs.answers)
		g.s.Close()
		assert.Equal(t, closeTime, time.Since(before))
		assert.Zero(t, g.hostCount())
	})
}
