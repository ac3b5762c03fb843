package client

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// TestRenew checks that the lease is renewed for as long as a delegation is
// held, and no longer.
func TestRenew(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		word := func() uint64 {
			synctest.Wait()
			region, err := delegation.NewRegion(r.server.lastConn().link.Counters())
			assert.NoError(t, err)
			return region.Load(delegation.LeaseWord)
		}
		time.Sleep(10 * lease)
		assert.Zero(t, word(), "no delegation is held")
		o := r.heldObject("file")
		for range 100 {
			time.Sleep(lease / 10)
			assert.True(t, o.Trust() > 0)
		}
		assert.EqualValues(t, 1+30, word())
		assert.Zero(t, r.server.grantor.Stats().Silent)
		r.Forget(o)
		time.Sleep(lease)
		before := word()
		time.Sleep(10 * lease)
		assert.Equal(t, before, word())
		r.heldObject("another")
		time.Sleep(10 * lease)
		assert.EqualValues(t, before+1+30, word())
	})
}

// TestPause checks that after a pause missed by the clock, the next renewal
// drops all delegations, because other caches than the Set's serve their
// content for a time. Later grants are held as usual.
func TestPause(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		var pauses atomic.Uint64
		r.Set.pauses = pauses.Load
		o := r.heldObject("file")
		time.Sleep(lease)
		assert.True(t, o.Trust() > 0)
		pauses.Add(1)
		time.Sleep(lease / 2)
		assert.Zero(t, o.Trust())
		r.mu.Lock()
		assert.Equal(t, []*Object{o}, r.dropped)
		r.mu.Unlock()
		time.Sleep(lease)
		again := r.heldObject("another")
		time.Sleep(lease)
		assert.True(t, again.Trust() > 0)
	})
}

// TestSleep checks that after a suspend no delegation is trusted until the
// server has confirmed that its lease still holds.
func TestSleep(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		o := r.heldObject("file")
		r.clockOffset.Add(int64(lease * 2 / 3))
		assert.False(t, o.Trust() > 0)
		assert.True(t, o.Check(t.Context()), "the lease is renewed, and the word looked at")
		assert.True(t, o.Trust() > 0)

		r.clockOffset.Add(int64(lease))
		time.Sleep(lease/3 + 1)
		assert.False(t, o.Trust() > 0, "not before a look at the word")
		assert.True(t, o.Open(t.Context()))
		assert.True(t, o.Trust() > 0)

		// The sleep is so long that the server has reclaimed the delegation.
		for range 2 {
			synctest.Wait()
			r.server.ahead.Add(int64(lease))
			r.server.applyEffects(r.server.grantor.Tick(r.server.currentTime()))
		}
		r.clockOffset.Add(int64(2 * lease))
		assert.False(t, o.Open(t.Context()))
		assert.False(t, o.Trust() > 0)
		synctest.Wait() // the response to the renewal may still be processed
		assert.Zero(t, o.Types())
		assert.EqualValues(t, 1, r.server.grantor.Stats().Silent)
	})
}

// TestRenewUnanswered checks that a server that does not respond receives only
// a few renewals, and that the client waits for the responses.
func TestRenewUnanswered(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		o := r.heldObject("file")
		r.lastConn().Delay(time.Hour)
		time.Sleep(3 * lease)
		assert.False(t, o.Trust() > 0)
	})
}

// TestShortLease checks that a lease too short to keep does not occupy the
// client.
func TestShortLease(t *testing.T) {
	runTest(t, func(t *testing.T, r *testClient) {
		r.server.answer = func(*fakeServerConn, *delegation.AcquireArgs) *delegation.AcquireRes {
			return grantRes(1, 1, delegation.FileData, time.Millisecond)
		}
		o := r.newObject("file")
		assert.NotZero(t, r.acquireObject(o).Types)
		time.Sleep(time.Second)
		region, err := delegation.NewRegion(r.server.lastConn().link.Counters())
		assert.NoError(t, err)
		assert.LessOrEqual(t, region.Load(delegation.LeaseWord), uint64(time.Second/renewPause)+1)
	})
}
