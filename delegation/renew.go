package delegation

import "time"

// Renew tells whether it is time to add to LeaseWord; op then is to be posted. It
// is to be called at the time that RenewDue tells.
func (h *Holder) Renew(op *Op, now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.renew(op, now)
}

func (h *Holder) renew(op *Op, now time.Duration) bool {
	due, ok := h.due()
	if !ok || now < due || h.adds == maxRenewals {
		return false
	}
	h.adds++
	h.added = now
	h.post(op, OpRenew, nil, now)
	return true
}

// RenewDue returns when Renew is to be called next, and false where nothing is
// held.
func (h *Holder) RenewDue() (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.due()
}

func (h *Holder) due() (time.Duration, bool) {
	switch {
	case h.over || h.held == 0 && h.asking == 0:
		return 0, false
	case h.lease == 0: // before the first grant, one add is enough
		return 0, h.adds == 0 && !h.heard
	}
	return h.added + h.lease/renewals, true
}

// renewed takes the answer to an add. Where it came so late, or was sent so late,
// that the lease may have run out in between, nothing that was granted before is
// good until an operation behind that add says so: the server may have ended it
// all, and have told of little of it yet.
func (h *Holder) renewed(op *Op, now time.Duration) {
	h.adds--
	if !h.heard || int64(now) >= h.until.Load() {
		h.run = op.seq
		for _, s := range h.slots {
			if s.d != nil {
				s.d.good.Store(false)
			}
		}
	}
	h.heard, h.sent = true, op.posted
	// Only now: who finds the lease trusted again finds nothing good that is not.
	h.until.Store(int64(h.sent + trust(h.lease)))
}

// Lapse ends all delegations, since time has gone by that the clock did not tell of: the
// machine was paused, and others may go by what was served. What the server recalls of
// them is answered.
func (h *Holder) Lapse() Posts {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.run = h.seq // nor is anything good that has been asked for
	for _, s := range h.slots {
		if s.d != nil && s.d.state == valid {
			h.leave(s.d, void)
		}
	}
	return h.posts()
}

// shorten keeps to the shortest lease that came with a grant.
func (h *Holder) shorten(lease time.Duration) {
	if h.lease == 0 || lease < h.lease {
		h.lease = lease
	}
	if h.heard {
		h.until.Store(int64(h.sent + trust(h.lease)))
	}
}
