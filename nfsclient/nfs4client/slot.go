package nfs4client

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync"
)

// maxSlots is the maximum number of slots that a Session uses.
const maxSlots = 256

// noSlot is the slot ID that tells a waiting call that the session is broken.
const noSlot = ^uint32(0)

// errBroken means that a call's session is no longer the current one.
var errBroken = errors.New("nfs4client: session replaced")

// A slotTable holds one session's slots (RFC 8881, Section 2.10.6.1). A call
// acquires the lowest free slot. The server can lower the limit with
// sr_target_highest_slotid: slots beyond the limit finish their calls and are
// not acquired again. It can also raise the limit, up to the number of slots that
// the Session has requested.
type slotTable struct {
	mu       sync.Mutex
	busyBits [maxSlots / 64]uint64 // bits
	slot     []slot                // as many as the Session has requested
	limit    uint32                // number of slots that may be acquired
	waiting  []*Compound           // in order of arrival
	broken   bool
}

// A slot has one call at a time, which owns the slot's fields.
type slot struct {
	nextSeqID uint32 // the next call's sequence ID
	uncertain bool   // the server may have seen a call with that sequence ID
}

// initSlots creates free slots: as many as the Session has requested, of which the
// server has granted n.
func (t *slotTable) initSlots(requested, n uint32) {
	t.slot, t.limit = make([]slot, requested), min(requested, n)
	for i := range t.slot {
		t.slot[i].nextSeqID = 1
	}
}

// acquireSlot acquires a slot for c, and waits for one if necessary. It also
// returns the highest slot in use.
func (t *slotTable) acquireSlot(ctx context.Context, c *Compound) (id, highest uint32, err error) {
	t.mu.Lock()
	if t.broken {
		t.mu.Unlock()
		return 0, 0, errBroken
	}
	if id, ok := t.freeLocked(); ok && len(t.waiting) == 0 {
		t.busyBits[id/64] |= 1 << (id % 64)
		highest = t.highestLocked()
		t.mu.Unlock()
		return id, highest, nil
	}
	t.waiting = append(t.waiting, c)
	t.mu.Unlock()
	select {
	case id = <-c.granted:
	case <-ctx.Done():
		t.mu.Lock()
		i := slices.Index(t.waiting, c)
		if i >= 0 {
			t.waiting = slices.Delete(t.waiting, i, i+1)
			t.mu.Unlock()
			return 0, 0, context.Cause(ctx)
		}
		t.mu.Unlock()
		if id = <-c.granted; id != noSlot {
			t.releaseSlot(id)
		}
		return 0, 0, context.Cause(ctx)
	}
	if id == noSlot {
		return 0, 0, errBroken
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return id, t.highestLocked(), nil
}

// releaseSlot frees a slot for the next call.
func (t *slotTable) releaseSlot(id uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busyBits[id/64] &^= 1 << (id % 64)
	t.serveLocked()
}

// setTarget limits the slots to those up to highest.
func (t *slotTable) setTarget(highest uint32) {
	n := uint32(len(t.slot))
	if highest < n {
		n = max(highest+1, 1)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n != t.limit {
		t.limit = n
		t.serveLocked()
	}
}

// breakSession makes all later and waiting calls fail with errBroken.
func (t *slotTable) breakSession() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = true
	for _, c := range t.waiting {
		c.granted <- noSlot
	}
	t.waiting = nil
}

// serveLocked gives free slots to waiting calls.
func (t *slotTable) serveLocked() {
	for len(t.waiting) > 0 {
		id, ok := t.freeLocked()
		if !ok {
			return
		}
		t.busyBits[id/64] |= 1 << (id % 64)
		t.waiting[0].granted <- id
		t.waiting = slices.Delete(t.waiting, 0, 1)
	}
}

// freeLocked returns the lowest free slot within the limit.
func (t *slotTable) freeLocked() (uint32, bool) {
	for i, w := range t.busyBits {
		if id := uint32(64*i + bits.TrailingZeros64(^w)); ^w != 0 {
			return id, id < t.limit
		}
	}
	return 0, false
}

// highestLocked returns the highest slot in use.
func (t *slotTable) highestLocked() uint32 {
	for i := len(t.busyBits) - 1; i >= 0; i-- {
		if w := t.busyBits[i]; w != 0 {
			return uint32(64*i + 63 - bits.LeadingZeros64(w))
		}
	}
	return 0
}
