package nlmserver

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// TestDeadlock: RNLM-LOCK-5: an owner that would wait for itself, directly or through other owners,
// of any client and file, gets NLM4_DEADLCK and does not wait. It waits if it tries again when no
// owner waits for it any more.
func TestDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a, b, c := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b"), g.newClient("192.0.2.3", "c")
		other := g.fileHandle(g.makeFile(g.realm.Snapshot().List()[0].FS, "other", 0o644))
		in := func(c *testClient, fh []byte) *testClient {
			d := *c
			d.lock.Handle = fh
			return &d
		}
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
		require.Equal(t, nlm4.Granted, b.tryLock(false, 20, 10))
		require.Equal(t, nlm4.Granted, b.otherProcess(2).tryLock(true, 30, 10))
		require.Equal(t, nlm4.Granted, in(c, other).tryLock(true, 0, 10))
		assert.Equal(t, nlm4.Blocked, a.waitLock(true, 20, 10))
		assert.Equal(t, nlm4.Deadlock, b.waitLock(false, 9, 1))
		assert.Equal(t, nlm4.Denied, b.tryLock(false, 9, 1), "it does not wait")
		assert.Equal(t, nlm4.Blocked, b.otherProcess(2).waitLock(false, 9, 1), "another process")
		assert.Equal(t, nlm4.Granted, b.otherProcess(2).cancelLock(false, 9, 1))

		assert.Equal(t, nlm4.Blocked, in(b, other).waitLock(true, 5, 1))
		assert.Equal(t, nlm4.Deadlock, c.waitLock(true, 0, 1), "a waits for b, and b for c, in another file")
		old := *c
		old.vers = nlm4.Version1
		assert.Equal(t, nlm4.Denied, old.waitLock(true, 0, 1), "version 1 has no word for it")
		assert.Equal(t, nlm4.Granted, a.cancelLock(true, 20, 10))
		assert.Equal(t, nlm4.Blocked, c.waitLock(true, 0, 1))
		assert.Equal(t, nlm4.Deadlock, a.waitLock(true, 20, 10))

		require.Equal(t, nlm4.Granted, a.unlockRange(0, 10))
		synctest.Wait()
		assert.Len(t, g.hostAt("192.0.2.3").takeGranted(), 1)
		require.Equal(t, nlm4.Granted, in(c, other).unlockRange(0, 10))
		synctest.Wait()
		assert.Len(t, g.hostAt("192.0.2.2").takeGranted(), 1)
		assert.False(t, g.state.HasLockWaiters())
	})
}

// TestDeadlockWithVersion4: an NFSv4 client that polls does not count as waiting.
func TestDeadlockWithVersion4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestServer(t)
		a := g.newClient("192.0.2.1", "a")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 10))
		four, id, key := g.newClient4()
		ask := func(start, end uint64) nfs4.Status {
			_, _, status := g.state.Lock(four, &nfs4state.Lock{
				StateID: id, New: true, Owner: []byte("o"), Key: key, Exclusive: true, Range: locks.Range{Start: start, End: end},
				Tell: func(*nfs4state.Waiting) {},
			})
			return status
		}
		require.Equal(t, nfs4.OK, ask(20, 29))
		require.Equal(t, nfs4.ErrDenied, ask(0, 9))
		assert.Equal(t, nlm4.Blocked, a.waitLock(true, 20, 10))
		require.Equal(t, nfs4.ErrDenied, ask(0, 9))
	})
}

// TestDeadlockOfManyLocks: the search for a cycle is bounded: of very many locks for which one
// owner waits, it considers those for which the owner has waited longest.
func TestDeadlockOfManyLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 64
		g := newTestServer(t)
		a, b, c := g.newClient("192.0.2.1", "a"), g.newClient("192.0.2.2", "b"), g.newClient("192.0.2.3", "c")
		require.Equal(t, nlm4.Granted, a.tryLock(true, 0, 1))
		require.Equal(t, nlm4.Granted, b.tryLock(true, 1000, 1))
		require.Equal(t, nlm4.Granted, c.tryLock(true, 2000, many))
		for i := range uint64(many) {
			require.Equal(t, nlm4.Blocked, b.waitLock(true, 2000+i, 1))
		}
		require.Equal(t, nlm4.Blocked, b.waitLock(true, 0, 1))
		assert.Equal(t, nlm4.Blocked, a.waitLock(true, 1000, 1))
		require.Equal(t, nlm4.Granted, b.cancelLock(true, 2000, 1))
		assert.Equal(t, nlm4.Deadlock, a.waitLock(true, 1000, 1))
		require.Equal(t, nlm4.Granted, b.unlockRange(1000, 1))
		for i := range uint64(many - 1) {
			require.Equal(t, nlm4.Granted, b.cancelLock(true, 2001+i, 1))
		}
		require.Equal(t, nlm4.Granted, b.cancelLock(true, 0, 1))
		assert.False(t, g.state.HasLockWaiters())
	})
}
