package nfs4state

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

// counterGrants says whether clients may hold delegations with delegation counters
// (package delegation/server). A client that was disconnected trusts these until its
// lease has expired, and knows neither that an earlier State ended nor that this one
// began. The journal therefore has a record while such grants may be outstanding. It
// does not say when the last lease was renewed: after a restart every change waits for
// a whole lease.
type counterGrants struct {
	raised   atomic.Bool   // changes may have to wait
	fenceEnd time.Duration // until this time

	making   atomic.Int64 // calls between BeginCounterGrant and EndCounterGrant
	recorded atomic.Bool  // the record covers new grants, and is stable
	storing  atomic.Bool  // a call waits until it is
	used     atomic.Bool  // a grant was made since the last trimCounters

	// State.mu guards these.
	lease time.Duration // in the record; 0: there is none
	live  func() int    // may be nil
}

// restoreCounters adopts the record of earlier States. Without a journal none is needed.
func (s *State) restoreCounters() {
	c := &s.counters
	c.lease = s.config.Past.Counters
	c.fenceEnd = s.config.Now() + c.lease
	c.raised.Store(c.lease > 0)
	c.recorded.Store(s.config.Journal == nil)
}

// countersLeft returns the time for which every change must still wait, because clients
// may trust grants from before the restart.
func (s *State) countersLeft() time.Duration {
	c := &s.counters
	if !c.raised.Load() {
		return 0
	}
	if left := c.fenceEnd - s.config.Now(); left > 0 {
		return left
	}
	c.raised.Store(false)
	return 0
}

// DefersChange reports whether a change must wait, because clients may rely on
// delegations from before the restart. A change by an open or a delegation of this State
// conflicts with no delegation that can be reclaimed.
func (s *State) DefersChange(byState bool) bool {
	return s.countersLeft() > 0 || !byState && s.HasEarlierDelegations()
}

// WatchCounterGrants sets the function that returns the number of grants in force. It
// must not call the State.
func (s *State) WatchCounterGrants(live func() int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counters.live = live
}

// BeginCounterGrant reports whether a grant may be made. The lease time is the same in
// all calls, and at least 1 ms. If ok is set, the record is stable, and the caller calls
// EndCounterGrant when the grant counts as in force. If busy is set, another call already
// waits for the journal, whose disk may hang.
func (s *State) BeginCounterGrant(lease time.Duration) (ok, busy bool) {
	c := &s.counters
	c.making.Add(1) // from here on, trimCounters keeps the record
	if c.recorded.Load() && s.countersLeft() == 0 {
		return true, false
	}
	if busy = !c.storing.CompareAndSwap(false, true); !busy {
		ok = s.countersLeft() == 0 && s.storeCounters(lease)
		c.storing.Store(false)
	}
	if !ok {
		c.making.Add(-1)
	}
	return ok, busy
}

// EndCounterGrant must be called after BeginCounterGrant.
func (s *State) EndCounterGrant() {
	s.counters.used.Store(true)
	s.counters.making.Add(-1)
}

// storeCounters records a lease, and reports whether that is stable.
func (s *State) storeCounters(lease time.Duration) bool {
	c := &s.counters
	s.mu.Lock()
	if c.lease < lease {
		c.lease = lease
		s.enqueueRecord(AppendCounters(nil, lease))
	}
	s.mu.Unlock()
	ok := s.storeQueue() && !s.ledger.retired.Load()
	c.recorded.Store(ok)
	return ok
}

// trimCounters removes the record if no grant is in force and no change waits; if lazily,
// only if none was made since the last call. State.mu is held.
func (s *State) trimCounters(lazily bool) {
	c := &s.counters
	if c.lease == 0 || s.countersLeft() > 0 {
		return
	}
	recorded := c.recorded.Swap(false) // a grant that begins from here on waits for State.mu
	used := c.used.Swap(false)
	if used && lazily || c.making.Load() > 0 || c.live != nil && c.live() > 0 {
		c.recorded.Store(recorded)
		return
	}
	c.lease = 0
	s.enqueueRecord(AppendCounters(nil, 0))
}

// AppendCounters appends the record that clients may hold grants with a lease time to b,
// or that they hold none if the lease is 0.
func AppendCounters(b []byte, lease time.Duration) []byte {
	milliseconds := (lease + time.Millisecond - 1) / time.Millisecond
	return binary.BigEndian.AppendUint32(append(b, countersRecord), uint32(min(milliseconds, 1<<32-1)))
}
