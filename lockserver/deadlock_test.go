package lockserver

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs4state"
)

// TestDeadlock: RNLM-LOCK-5: an owner that would wait for itself, directly or through other owners, of any client and file, gets
// NLM4_DEADLCK and does not wait. It waits if it asks again once nobody waits for it.
func TestDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		a, b, c := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b"), g.client("192.0.2.3", "c")
		other := g.handle(g.make(g.realm.Set().List()[0].FS, "other", 0o644))
		in := func(c *client, fh []byte) *client {
			d := *c
			d.lock.Handle = fh
			return &d
		}
		require.Equal(t, nlm4.Granted, a.try(true, 0, 10))
		require.Equal(t, nlm4.Granted, b.try(false, 20, 10))
		require.Equal(t, nlm4.Granted, b.process(2).try(true, 30, 10))
		require.Equal(t, nlm4.Granted, in(c, other).try(true, 0, 10))
		assert.Equal(t, nlm4.Blocked, a.waits(true, 20, 10))
		assert.Equal(t, nlm4.Deadlock, b.waits(false, 9, 1))
		assert.Equal(t, nlm4.Denied, b.try(false, 9, 1), "it does not wait")
		assert.Equal(t, nlm4.Blocked, b.process(2).waits(false, 9, 1), "another process")
		assert.Equal(t, nlm4.Granted, b.process(2).cancel(false, 9, 1))

		assert.Equal(t, nlm4.Blocked, in(b, other).waits(true, 5, 1))
		assert.Equal(t, nlm4.Deadlock, c.waits(true, 0, 1), "a waits for b, and b for c, in another file")
		old := *c
		old.vers = nlm4.Version1
		assert.Equal(t, nlm4.Denied, old.waits(true, 0, 1), "version 1 has no word for it")
		assert.Equal(t, nlm4.Granted, a.cancel(true, 20, 10))
		assert.Equal(t, nlm4.Blocked, c.waits(true, 0, 1))
		assert.Equal(t, nlm4.Deadlock, a.waits(true, 20, 10))

		require.Equal(t, nlm4.Granted, a.unlock(0, 10))
		synctest.Wait()
		assert.Len(t, g.host("192.0.2.3").grants(), 1)
		require.Equal(t, nlm4.Granted, in(c, other).unlock(0, 10))
		synctest.Wait()
		assert.Len(t, g.host("192.0.2.2").grants(), 1)
		assert.False(t, g.state.Waits())
	})
}

// TestDeadlockWithVersion4: a client of version 4 that asks again and again is not regarded as waiting.
func TestDeadlockWithVersion4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		a := g.client("192.0.2.1", "a")
		require.Equal(t, nlm4.Granted, a.try(true, 0, 10))
		four, id, key := g.four()
		ask := func(start, end uint64) nfs4.Status {
			_, _, status := g.state.Lock(four, &nfs4state.Lock{
				StateID: id, New: true, Owner: []byte("o"), Key: key, Exclusive: true, Range: locks.Range{Start: start, End: end},
				Tell: func(*nfs4state.Waiting) {},
			})
			return status
		}
		require.Equal(t, nfs4.OK, ask(20, 29))
		require.Equal(t, nfs4.ErrDenied, ask(0, 9))
		assert.Equal(t, nlm4.Blocked, a.waits(true, 20, 10))
		require.Equal(t, nfs4.ErrDenied, ask(0, 9))
	})
}

// TestDeadlockOfManyLocks: the search for a circle has a bound: of very many locks for which one owner waits, it
// regards those for which the owner has waited longest.
func TestDeadlockOfManyLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 64
		g := newRig(t)
		a, b, c := g.client("192.0.2.1", "a"), g.client("192.0.2.2", "b"), g.client("192.0.2.3", "c")
		require.Equal(t, nlm4.Granted, a.try(true, 0, 1))
		require.Equal(t, nlm4.Granted, b.try(true, 1000, 1))
		require.Equal(t, nlm4.Granted, c.try(true, 2000, many))
		for i := range uint64(many) {
			require.Equal(t, nlm4.Blocked, b.waits(true, 2000+i, 1))
		}
		require.Equal(t, nlm4.Blocked, b.waits(true, 0, 1))
		assert.Equal(t, nlm4.Blocked, a.waits(true, 1000, 1))
		require.Equal(t, nlm4.Granted, b.cancel(true, 2000, 1))
		assert.Equal(t, nlm4.Deadlock, a.waits(true, 1000, 1))
		require.Equal(t, nlm4.Granted, b.unlock(1000, 1))
		for i := range uint64(many - 1) {
			require.Equal(t, nlm4.Granted, b.cancel(true, 2001+i, 1))
		}
		require.Equal(t, nlm4.Granted, b.cancel(true, 0, 1))
		assert.False(t, g.state.Waits())
	})
}
