package nfs4client

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync"
)

// maxSlots is the greatest number of slots that a Session uses.
const maxSlots = 256

// noSlot tells a waiting call that the session is broken.
const noSlot = ^uint32(0)

// errBroken means that the session of a call is no longer in force.
var errBroken = errors.New("nfs4client: session replaced")

// slots are the slots of one session (RFC 8881, Section 2.10.6.1). A call takes
// the lowest that is free. The server lowers the limit by
// sr_target_highest_slotid: slots beyond the limit end their calls and are not
// taken again.
type slots struct {
	mu     sync.Mutex
	busy   [maxSlots / 64]uint64 // bits
	slot   []slot
	limit  uint32      // slots that may be taken
	queue  []*Compound // that wait for a slot, in order
	broken bool
}

// A slot has one call at a time. Its fields belong to the call that has taken
// the slot.
type slot struct {
	next      uint32 // sequence ID of the next call
	uncertain bool   // the server may have seen a call with that sequence ID
}

// init makes n free slots.
func (t *slots) init(n uint32) {
	t.slot, t.limit = make([]slot, n), n
	for i := range t.slot {
		t.slot[i].next = 1
	}
}

// take takes a slot for c, and waits for one if necessary. It also returns the
// highest slot in use.
func (t *slots) take(ctx context.Context, c *Compound) (id, highest uint32, err error) {
	t.mu.Lock()
	if t.broken {
		t.mu.Unlock()
		return 0, 0, errBroken
	}
	if id, ok := t.freeLocked(); ok && len(t.queue) == 0 {
		t.busy[id/64] |= 1 << (id % 64)
		highest = t.highestLocked()
		t.mu.Unlock()
		return id, highest, nil
	}
	t.queue = append(t.queue, c)
	t.mu.Unlock()
	select {
	case id = <-c.turn:
	case <-ctx.Done():
		t.mu.Lock()
		i := slices.Index(t.queue, c)
		if i >= 0 {
			t.queue = slices.Delete(t.queue, i, i+1)
			t.mu.Unlock()
			return 0, 0, context.Cause(ctx)
		}
		t.mu.Unlock()
		if id = <-c.turn; id != noSlot {
			t.give(id)
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

// give returns a slot.
func (t *slots) give(id uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy[id/64] &^= 1 << (id % 64)
	t.serveLocked()
}

// retarget sets how many slots the server wants to be in use at most.
func (t *slots) retarget(highest uint32) {
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

// end makes all later and all waiting calls fail with errBroken.
func (t *slots) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = true
	for _, c := range t.queue {
		c.turn <- noSlot
	}
	t.queue = nil
}

// serveLocked gives free slots to waiting calls.
func (t *slots) serveLocked() {
	for len(t.queue) > 0 {
		id, ok := t.freeLocked()
		if !ok {
			return
		}
		t.busy[id/64] |= 1 << (id % 64)
		t.queue[0].turn <- id
		t.queue = slices.Delete(t.queue, 0, 1)
	}
}

// freeLocked returns the lowest free slot within the limit.
func (t *slots) freeLocked() (uint32, bool) {
	for i, w := range t.busy {
		if id := uint32(64*i + bits.TrailingZeros64(^w)); ^w != 0 {
			return id, id < t.limit
		}
	}
	return 0, false
}

// highestLocked returns the highest slot in use.
func (t *slots) highestLocked() uint32 {
	for i := len(t.busy) - 1; i >= 0; i-- {
		if w := t.busy[i]; w != 0 {
			return uint32(64*i + 63 - bits.LeadingZeros64(w))
		}
	}
	return 0
}
