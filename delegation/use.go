package delegation

import "time"

// A Verdict says whether data may be served from the cache.
type Verdict uint8

// The verdicts.
const (
	Serve Verdict = iota // data may be served
	Post                 // post the Op; Answered returns the verdict
	Doubt                // not now, but perhaps later: ask the server by a call
	Void                 // never again
)

// Trusts reports whether data may be served under d now without an atomic
// operation (rules d and f). Trusts takes no lock.
func (h *Holder) Trusts(d *Delegation, now time.Duration) bool { return h.Trust(d, now) > 0 }

// Trust returns how long from now Trusts remains true without further events; 0
// if it is false now. Trust takes no lock.
func (h *Holder) Trust(d *Delegation, now time.Duration) time.Duration {
	until := time.Duration(h.until.Load()) // before good: see renewed
	if until <= now || !d.good.Load() {
		return 0
	}
	return until - now
}

// Open begins a use of d that lasts until Close: an open file, or attributes
// that must be servable at any time. If the verdict is Post, the caller must
// post op. Close must follow after every verdict of Open and Answered, but not
// before Answered.
func (h *Holder) Open(d *Delegation, op *Op, now time.Duration) Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.users++
	switch {
	case d.state != valid:
		return Void
	case h.Trusts(d, now):
		return Serve
	case d.opens || d.opening: // the open is counted already; validate only
		h.post(op, OpValidate, d, now)
	default:
		d.opening = true
		h.post(op, OpOpen, d, now)
	}
	return Post
}

// Check reports whether data may be served once under d, now.
func (h *Holder) Check(d *Delegation, op *Op, now time.Duration) Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case d.state != valid:
		return Void
	case h.Trusts(d, now):
		return Serve
	}
	h.post(op, OpValidate, d, now)
	return Post
}

// Close ends a use. If Close returns true, that was the last use, and the
// caller must post op.
func (h *Holder) Close(d *Delegation, op *Op, now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.users--
	if d.users > 0 || !d.opens || d.state != valid {
		return false // an older generation needs no close (rule e)
	}
	d.opens = false
	d.good.Store(false)
	h.post(op, OpClose, d, now)
	return true
}

// Forget ends a delegation that has no uses and under which nothing is cached
// any more. The server finds the delegation unused. If the server recalls the
// delegation anyway, the Holder answers the recall.
func (h *Holder) Forget(d *Delegation) Posts {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.state != valid || d.opens || d.opening {
		return Posts{}
	}
	h.leave(d, void)
	fx := h.posts()
	fx.Drops = nil
	return fx
}

// Answered handles the answer to op: original is the previous value of the
// word. Answered returns whether the data for which op was posted may be served
// (rules a and f).
func (h *Holder) Answered(op *Op, original uint64, now time.Duration) (Verdict, Posts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return Void, Posts{}
	}
	if op.d == nil {
		h.renewed(op, now)
		return Doubt, Posts{}
	}
	v := h.verdict(op, Word(original), now)
	s := h.slots[op.Word]
	s.ops--
	h.answerRecalls(op.Word, s)
	return v, h.posts()
}

func (h *Holder) verdict(op *Op, w Word, now time.Duration) Verdict {
	d := op.d
	switch {
	case op.Kind == OpClose:
		return Doubt
	case d.state != valid: // kind 1 has arrived
		d.opening = false
		return Void
	case w.Generation() != d.Generation:
		d.opening = false
		h.leave(d, void)
		return Void
	}
	if op.Kind == OpOpen {
		d.opens, d.opening = true, false
	}
	if now-op.posted >= h.lease {
		return Doubt
	}
	// Answers arrive in order. If the lease was in doubt, the add that ended
	// the doubt was therefore done before op.
	d.good.Store(d.opens)
	if int64(now) >= h.until.Load() {
		return Doubt
	}
	return Serve
}
