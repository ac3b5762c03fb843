package nfs4state

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// counterLease is the lease time of counter grants in these tests.
const counterLease = 9 * time.Second

// A counterState is a restartingState whose clients may hold counter grants.
type counterState struct {
	*restartingState
	live int // grants in force
}

func newCounterState(t testing.TB) *counterState {
	c := &counterState{restartingState: newRestartingState(t)}
	c.WatchCounterGrants(func() int { return c.live })
	return c
}

// restartAfter restarts the server after an earlier one with a lease time.
func (c *counterState) restartAfter(lease time.Duration) {
	c.t.Helper()
	c.store.records = append(c.store.records, AppendCounters(nil, lease))
	c.crashServer()
}

// crashServer drops the State, and starts the next one, which has no grants.
func (c *counterState) crashServer() {
	c.t.Helper()
	c.crashState()
	c.live = 0
	c.WatchCounterGrants(func() int { return c.live })
}

// makeGrant makes a grant, and reports whether that was permitted.
func (c *counterState) makeGrant() bool {
	ok, busy := c.BeginCounterGrant(counterLease)
	assert.False(c.t, busy)
	if ok {
		c.live++
		c.EndCounterGrant()
	}
	return ok
}

// storedLease returns the lease that the next server finds.
func (c *counterState) storedLease() time.Duration {
	c.t.Helper()
	past, err := ReadPast(c.store.records)
	require.NoError(c.t, err)
	return past.Counters
}

// sweepLease sweeps when records are next trimmed.
func (c *counterState) sweepLease() {
	c.advanceClock(testLease)
	c.Sweep()
}

// TestCounterFence checks that after a crash every change waits for the whole lease time of the
// earlier server's grants, no less and no more, even if this server's lease is shorter. Nothing
// is granted in that time.
func TestCounterFence(t *testing.T) {
	for _, lease := range []time.Duration{time.Second, 20 * time.Second, 1500*time.Microsecond + 1} {
		t.Run(lease.String(), func(t *testing.T) {
			c := newCounterState(t)
			c.restartAfter(lease)
			whole := lease.Round(time.Millisecond)
			for left := whole; left > 0; left -= whole {
				assert.Equal(t, left, c.Grace().Counters)
				assert.True(t, c.DefersChange(true) && c.DefersChange(false))
				assert.False(t, c.makeGrant())
				c.advanceClock(left - 1)
				assert.True(t, c.DefersChange(true) && c.DefersChange(false))
				assert.False(t, c.makeGrant())
				c.advanceClock(1)
			}
			assert.False(t, c.DefersChange(true) || c.DefersChange(false))
			assert.Zero(t, c.Grace().Counters)
			assert.True(t, c.makeGrant())
			assert.Equal(t, max(whole, counterLease), c.storedLease())
		})
	}
}

// TestCounterFenceAgain checks that if a server stops during the wait, the next server waits for
// the full time.
func TestCounterFenceAgain(t *testing.T) {
	c := newCounterState(t)
	c.restartAfter(time.Hour)
	for _, stop := range []func(){func() {}, func() { c.sweepLease(); c.sweepLease() }, c.StopRecording} {
		c.advanceClock(time.Second)
		stop()
		c.crashServer()
		assert.Equal(t, time.Hour, c.Grace().Counters)
		assert.True(t, c.DefersChange(true))
	}
}

// TestCounterRecord checks that the record is stable before the first grant, and that further
// grants write nothing. It is removed when no grant is in force and none was made for a while,
// even if no client requests one.
func TestCounterRecord(t *testing.T) {
	c := newCounterState(t)
	assert.True(t, c.makeGrant())
	assert.Equal(t, counterLease, c.storedLease())
	writes := c.store.writes
	assert.True(t, c.makeGrant())
	for range 10 {
		c.sweepLease()
	}
	assert.Equal(t, writes, c.store.writes)
	assert.Equal(t, counterLease, c.storedLease(), "a grant is in force")
	assert.True(t, c.makeGrant())
	c.live = 0
	c.sweepLease()
	assert.Equal(t, counterLease, c.storedLease(), "a grant was made a moment ago")
	c.sweepLease()
	assert.Zero(t, c.storedLease())
	assert.Equal(t, writes+1, c.store.writes)
	assert.True(t, c.makeGrant())
	assert.Equal(t, counterLease, c.storedLease())

	c.crashServer()
	c.sweepLease()
	assert.Zero(t, c.storedLease(), "the earlier server's lease is over")
}

// TestCounterRecordKept checks that the record stays while a grant is being made.
func TestCounterRecordKept(t *testing.T) {
	c := newCounterState(t)
	ok, _ := c.BeginCounterGrant(counterLease)
	require.True(t, ok)
	for range 3 {
		c.sweepLease()
	}
	c.StopRecording()
	assert.Equal(t, counterLease, c.storedLease())
}

// TestCounterRecordReplaced checks that the record survives when the journal is replaced.
func TestCounterRecordReplaced(t *testing.T) {
	c := newCounterState(t)
	require.True(t, c.makeGrant())
	c.store.torn = true // the next Append fails
	c.prepareClient("a", "f", 0, false)
	assert.False(t, c.store.torn)
	assert.Equal(t, counterLease, c.storedLease())
}

// TestCountersEnd checks that a server that stops removes the record if all grants were returned,
// and that it grants nothing without the record afterwards.
func TestCountersEnd(t *testing.T) {
	for _, live := range []int{0, 1} {
		c := newCounterState(t)
		require.True(t, c.makeGrant())
		c.live = live
		c.StopRecording()
		assert.Equal(t, live > 0, c.storedLease() > 0)
		assert.Equal(t, live > 0, c.makeGrant())
	}
}

// TestCountersFail checks that nothing is granted while the journal fails, and that changes
// continue.
func TestCountersFail(t *testing.T) {
	c := newCounterState(t)
	c.store.failing = true
	for range 2 {
		assert.False(t, c.makeGrant())
		assert.False(t, c.DefersChange(true) || c.DefersChange(false))
	}
	assert.Len(t, c.storedErrs, 1)
	c.store.failing = false
	c.advanceClock(retryEvery)
	assert.True(t, c.makeGrant())
	assert.Equal(t, counterLease, c.storedLease())
}

// TestCountersHang checks that if the disk does not respond, one call waits for it, for a bounded
// time. Other calls, changes and the removal of the record do not wait.
func TestCountersHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounterState(t)
		c.store.hangs = make(chan struct{})
		first := make(chan bool)
		begun := time.Now()
		go func() {
			ok, _ := c.BeginCounterGrant(counterLease)
			first <- ok
		}()
		synctest.Wait()
		ok, busy := c.BeginCounterGrant(counterLease)
		assert.True(t, !ok && busy)
		assert.False(t, c.DefersChange(true) || c.DefersChange(false))
		assert.Zero(t, time.Since(begun))
		assert.False(t, <-first)
		assert.Equal(t, journalTimeout, time.Since(begun))
		close(c.store.hangs)
		assert.True(t, c.makeGrant())
	})
}

// TestCountersUnrecorded checks that a server without a journal grants at once, and never waits.
func TestCountersUnrecorded(t *testing.T) {
	s := newTestState(t)
	ok, _ := s.BeginCounterGrant(counterLease)
	assert.True(t, ok)
	s.EndCounterGrant()
	s.advanceClock(testLease)
	s.Sweep()
	assert.False(t, s.DefersChange(true) || s.DefersChange(false))
	assert.Empty(t, s.ledger.queue)
}

// TestCountersCrash checks that whatever happens to each write, a crash loses no record while
// grants may be outstanding.
func TestCountersCrash(t *testing.T) {
	for _, fault := range []journalFault{refused, doubtful, crashBefore, crashAfter} {
		for at := range 4 { // the write that fails
			t.Run(fmt.Sprint(fault, at), func(t *testing.T) {
				w := newTestState(t)
				journal := new(fakeJournal)
				config := w.config
				config.Journal = journal
				s := New(config)
				live := 0
				s.WatchCounterGrants(func() int { return live })
				check := func() {
					past, err := ReadPast(journal.records)
					require.NoError(t, err)
					assert.True(t, live == 0 || past.Counters == counterLease, "%d grants in force", live)
				}
				steps := []func(){
					func() { // a grant
						if ok, _ := s.BeginCounterGrant(counterLease); ok {
							live++
							check()
							s.EndCounterGrant()
						}
					},
					func() { // all are returned, and the record is removed
						live = 0
						for range 2 {
							w.advanceClock(testLease)
							s.Sweep()
							check()
						}
					},
				}
				for i := range 8 {
					if i == at {
						journal.next, journal.times = fault, 1
					}
					steps[i%2]()
					check()
					w.advanceClock(retryEvery)
				}
				assert.Zero(t, journal.times, "the fault has happened")
			})
		}
	}
}
