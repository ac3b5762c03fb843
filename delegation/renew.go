package delegation

import "time"

// Renew reports whether an add to LeaseWord is due; if so, the caller must post
// op. The caller must call Renew at the time returned by RenewDue.
func (h *Holder) Renew(op *Op, now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.prepareRenewal(op, now)
}

func (h *Holder) prepareRenewal(op *Op, now time.Duration) bool {
	due, ok := h.renewalDue()
	if !ok || now < due || h.renewalsInFlight == maxRenewals {
		return false
	}
	h.renewalsInFlight++
	h.lastRenewal = now
	h.prepareOp(op, OpRenew, nil, now)
	return true
}

// RenewDue returns when the caller must next call Renew, or false if nothing is
// held.
func (h *Holder) RenewDue() (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.renewalDue()
}

func (h *Holder) renewalDue() (time.Duration, bool) {
	switch {
	case h.ended || h.delegationCount == 0 && h.acquiresInFlight == 0:
		return 0, false
	case h.shortestLease == 0: // before the first grant, one add is enough
		return 0, h.renewalsInFlight == 0 && !h.renewAnswered
	}
	return h.lastRenewal + h.shortestLease/renewalsPerLease, true
}

// handleRenewal handles a completed add. If it was sent or completed so late
// that the lease may have expired in between, no earlier grant is confirmed
// until an operation posted after that add confirms it. The server may have
// revoked all the grants, and few of its recalls may have arrived yet.
func (h *Holder) handleRenewal(op *Op, now time.Duration) {
	h.renewalsInFlight--
	if !h.renewAnswered || int64(now) >= h.trustedUntil.Load() {
		h.trustSeq = op.seq
		for _, s := range h.slots {
			if s.delegation != nil {
				s.delegation.confirmed.Store(false)
			}
		}
	}
	h.renewAnswered, h.lastRenewPosted = true, op.posted
	// trustedUntil must be set last: a goroutine that finds the lease trusted
	// again must not find a delegation that is wrongly marked confirmed.
	h.trustedUntil.Store(int64(h.lastRenewPosted + trustTime(h.shortestLease)))
}

// Lapse ends all delegations after a suspend that the clock did not count.
// Other clients may have changed objects since. Later recalls by the server are
// still answered.
func (h *Holder) Lapse() Posts {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trustSeq = h.lastSeq // grants for ACQUIREs in flight are not confirmed either
	for _, s := range h.slots {
		if s.delegation != nil && s.delegation.state == stateValid {
			h.dropDelegation(s.delegation, stateVoid)
		}
	}
	return h.takePosts()
}

// adoptLease uses lease if it is the shortest received with a grant so far.
func (h *Holder) adoptLease(lease time.Duration) {
	if h.shortestLease == 0 || lease < h.shortestLease {
		h.shortestLease = lease
	}
	if h.renewAnswered {
		h.trustedUntil.Store(int64(h.lastRenewPosted + trustTime(h.shortestLease)))
	}
}
