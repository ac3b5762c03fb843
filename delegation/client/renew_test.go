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
	run(t, func(t *testing.T, r *rig) {
		word := func() uint64 {
			synctest.Wait()
			region, err := delegation.NewRegion(r.k.last().link.Counters())
			assert.NoError(t, err)
			return region.Load(delegation.LeaseWord)
		}
		time.Sleep(10 * lease)
		assert.Zero(t, word(), "no delegation is held")
		o := r.holds("file")
		for range 100 {
			time.Sleep(lease / 10)
			assert.True(t, o.Trust() > 0)
		}
		assert.EqualValues(t, 1+30, word())
		assert.Zero(t, r.k.g.Stats().Silent)
		r.Forget(o)
		time.Sleep(lease)
		before := word()
		time.Sleep(10 * lease)
		assert.Equal(t, before, word())
		r.holds("another")
		time.Sleep(10 * lease)
		assert.EqualValues(t, before+1+30, word())
	})
}

// TestPause checks that after a pause missed by the clock, the next renewal
// drops all delegations, because other caches than the Set's serve their
// content for a time. Later grants are held as usual.
func TestPause(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		var pauses atomic.Uint64
		r.Set.pauses = pauses.Load
		o := r.holds("file")
		time.Sleep(lease)
		assert.True(t, o.Trust() > 0)
		pauses.Add(1)
		time.Sleep(lease / 2)
		assert.Zero(t, o.Trust())
		r.mu.Lock()
		assert.Equal(t, []*Object{o}, r.dropped)
		r.mu.Unlock()
		time.Sleep(lease)
		again := r.holds("another")
		time.Sleep(lease)
		assert.True(t, again.Trust() > 0)
	})
}

// TestSleep checks that after a sleep of the machine no delegation is trusted
// until the server has confirmed that its lease still holds.
func TestSleep(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		o := r.holds("file")
		r.asleep.Add(int64(lease * 2 / 3))
		assert.False(t, o.Trust() > 0)
		assert.True(t, o.Check(t.Context()), "the lease is renewed, and the word looked at")
		assert.True(t, o.Trust() > 0)

		r.asleep.Add(int64(lease))
		time.Sleep(lease/3 + 1)
		assert.False(t, o.Trust() > 0, "not before a look at the word")
		assert.True(t, o.Open(t.Context()))
		assert.True(t, o.Trust() > 0)

		// The sleep is so long that the server has reclaimed the delegation.
		for range 2 {
			synctest.Wait()
			r.k.ahead.Add(int64(lease))
			r.k.do(r.k.g.Tick(r.k.now()))
		}
		r.asleep.Add(int64(2 * lease))
		assert.False(t, o.Open(t.Context()))
		assert.False(t, o.Trust() > 0)
		synctest.Wait() // the answer to the renewal may still be in work
		assert.Zero(t, o.Types())
		assert.EqualValues(t, 1, r.k.g.Stats().Silent)
	})
}

// TestRenewUnanswered checks that a server that does not answer receives only a
// few renewals, and that the client waits for the answers.
func TestRenewUnanswered(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		o := r.holds("file")
		r.conn().Delay(time.Hour)
		time.Sleep(3 * lease)
		assert.False(t, o.Trust() > 0)
	})
}

// TestShortLease checks that a lease too short to keep does not occupy the
// client.
func TestShortLease(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		r.k.answer = func(*served, *delegation.AcquireArgs) *delegation.AcquireRes {
			return grantOf(1, 1, delegation.FileData, time.Millisecond)
		}
		o := r.object("file")
		assert.NotZero(t, r.acquire(o).Types)
		time.Sleep(time.Second)
		region, err := delegation.NewRegion(r.k.last().link.Counters())
		assert.NoError(t, err)
		assert.LessOrEqual(t, region.Load(delegation.LeaseWord), uint64(time.Second/renewPause)+1)
	})
}
