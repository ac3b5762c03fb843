package lockserver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// slowStorage is a file system that locks files on the host when it can receive an answer.
type slowStorage struct {
	vfs.FS
	answers chan struct{}
}

func (s *slowStorage) OpenLocks(context.Context, vfs.Handle) (vfs.FileLocks, error) {
	return slowLocks(s.answers), nil
}

type slowLocks chan struct{}

func (l slowLocks) SetLock(locks.Range, locks.Kind) (bool, error) {
	<-l
	return true, nil
}

func (l slowLocks) TestLock(r locks.Range, _ locks.Kind) (locks.Range, locks.Kind, error) {
	return r, locks.None, nil
}

func (l slowLocks) Close() {}

// TestCloseMeetsStorage checks that Close does not wait for storage that does not answer, and otherwise for all goroutines.
func TestCloseMeetsStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &slowStorage{FS: mem.New(mem.Options{Size: 1 << 20}), answers: make(chan struct{}, 1)}
		g := newRig(t, func(_ *nfs4state.Config, _ *Config, c *realm.Config) { c.Exports[0].FS = fs })
		a, b := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b")
		fs.answers <- struct{}{}
		require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
		require.Equal(t, nlm4.Blocked, b.waits(true, 0, 1))
		require.Equal(t, nlm4.Granted, a.unlock(0, 1))
		synctest.Wait() // the lock that is being granted waits for the host
		before := time.Now()
		g.s.Close()
		assert.Equal(t, closeTime, time.Since(before))
		close(fs.answers)
		g.s.Close()
		assert.Equal(t, closeTime, time.Since(before))
		assert.Zero(t, g.lines())
	})
}
