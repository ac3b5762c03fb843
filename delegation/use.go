package delegation

import "time"

// A Verdict says whether data may be served from the cache.
type Verdict uint8

// The verdicts.
const (
	Serve Verdict = iota // data may be served
	Post                 // post the Op; Answered returns the verdict
	Doubt                // not now, but perhaps later: send a call to the server
	Void                 // never again
)

// Trusts reports whether data may be served under d now without an atomic
// operation (rules d and f). Trusts takes no lock.
func (h *Holder) Trusts(d *Delegation, now time.Duration) bool { return h.Trust(d, now) > 0 }

// Trust returns the time for which Trusts remains true without further events;
// 0 if it is false now. Trust takes no lock.
func (h *Holder) Trust(d *Delegation, now time.Duration) time.Duration {
	until := time.Duration(h.trustedUntil.Load()) // load before confirmed: see handleRenewal
	if until <= now || !d.confirmed.Load() {
		return 0
	}
	return until - now
}

// Open starts a use of d that lasts until Close: an open file, or attributes
// that must be servable at any time. If the verdict is Post, the caller must
// post op. The caller must call Close whatever Open and Answered return, but
// not before Answered.
func (h *Holder) Open(d *Delegation, op *Op, now time.Duration) Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.userCount++
	switch {
	case d.state != stateValid:
		return Void
	case h.Trusts(d, now):
		return Serve
	case d.isOpen || d.opening: // the open is already counted; only validate
		h.prepareOp(op, OpValidate, d, now)
	default:
		d.opening = true
		h.prepareOp(op, OpOpen, d, now)
	}
	return Post
}

// Check returns whether data may be served under d once, now.
func (h *Holder) Check(d *Delegation, op *Op, now time.Duration) Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case d.state != stateValid:
		return Void
	case h.Trusts(d, now):
		return Serve
	}
	h.prepareOp(op, OpValidate, d, now)
	return Post
}

// Close ends a use. If it returns true, that was the last use, and the caller
// must post op.
func (h *Holder) Close(d *Delegation, op *Op, now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.userCount--
	if d.userCount > 0 || !d.isOpen || d.state != stateValid {
		return false // an older generation needs no close (rule e)
	}
	d.isOpen = false
	d.confirmed.Store(false)
	h.prepareOp(op, OpClose, d, now)
	return true
}

// Forget ends a delegation that has no uses and under which nothing is cached
// any more. The server finds it unused. If the server recalls it anyway, the
// Holder replies to the recall.
func (h *Holder) Forget(d *Delegation) Posts {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.state != stateValid || d.isOpen || d.opening {
		return Posts{}
	}
	h.dropDelegation(d, stateVoid)
	fx := h.takePosts()
	fx.Drops = nil
	return fx
}

// Answered must be called when op has completed: original is the word's
// previous value. It returns whether the data for which op was posted may be
// served (rules a and f).
func (h *Holder) Answered(op *Op, original uint64, now time.Duration) (Verdict, Posts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return Void, Posts{}
	}
	if op.delegation == nil {
		h.handleRenewal(op, now)
		return Doubt, Posts{}
	}
	v := h.judgeAnswer(op, slotWord(original), now)
	s := h.slots[op.Word]
	s.opsInFlight--
	h.answerRecalls(op.Word, s)
	return v, h.takePosts()
}

func (h *Holder) judgeAnswer(op *Op, w slotWord, now time.Duration) Verdict {
	d := op.delegation
	switch {
	case op.Kind == OpClose:
		return Doubt
	case d.state != stateValid: // kind 1 has arrived
		d.opening = false
		return Void
	case w.generation() != d.Generation:
		d.opening = false
		h.dropDelegation(d, stateVoid)
		return Void
	}
	if op.Kind == OpOpen {
		d.isOpen, d.opening = true, false
	}
	if now-op.posted >= h.shortestLease {
		return Doubt
	}
	// Responses arrive in order. If the lease was in doubt, the add that
	// restored trust was therefore executed before op.
	d.confirmed.Store(d.isOpen)
	if int64(now) >= h.trustedUntil.Load() {
		return Doubt
	}
	return Serve
}
