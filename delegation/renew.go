package delegation

import "time"

// Renew reports whether an add to LeaseWord is due; if so, the caller must post
// op. The caller must call Renew at the time returned by RenewDue.
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

// RenewDue returns when the caller must next call Renew, or false if nothing is
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

// renewed handles the answer to an add. If the add was sent or answered so late
// that the lease may have lapsed in between, no earlier grant is good until an
// operation posted after that add confirms the grant. The server may have ended
// all the grants, and few of its recalls may have arrived yet.
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
	// Only now may until be set: a goroutine that finds the lease trusted again
	// must not find an unconfirmed delegation good.
	h.until.Store(int64(h.sent + trust(h.lease)))
}

// Lapse ends all delegations because the machine was paused for a time that the
// clock did not count. Other clients may have changed objects meanwhile. Later
// recalls by the server are answered.
func (h *Holder) Lapse() Posts {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.run = h.seq // nor are grants of ACQUIREs under way good
	for _, s := range h.slots {
		if s.d != nil && s.d.state == valid {
			h.leave(s.d, void)
		}
	}
	return h.posts()
}

// shorten adopts lease if it is the shortest lease received with a grant.
func (h *Holder) shorten(lease time.Duration) {
	if h.lease == 0 || lease < h.lease {
		h.lease = lease
	}
	if h.heard {
		h.until.Store(int64(h.sent + trust(h.lease)))
	}
}
