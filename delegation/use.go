package delegation

import "time"

// A Verdict is whether something may be served from the cache.
type Verdict uint8

// The verdicts.
const (
	Serve Verdict = iota // it may
	Post                 // once the Op has been posted, and Answered says so
	Doubt                // not now, though later it may: ask the server by a call
	Void                 // never again
)

// Trusts tells whether anything may be served under d now without an atomic
// operation (rules d and f). It takes no lock.
func (h *Holder) Trusts(d *Delegation, now time.Duration) bool { return h.Trust(d, now) > 0 }

// Trust returns for how long from now on that is so, if nothing happens; 0 where it is
// not so now. It takes no lock.
func (h *Holder) Trust(d *Delegation, now time.Duration) time.Duration {
	until := time.Duration(h.until.Load()) // before good: see renewed
	if until <= now || !d.good.Load() {
		return 0
	}
	return until - now
}

// Open begins a use of d that lasts until Close: an open file, or attributes that
// are to be served at any time. Where the verdict is Post, op is to be posted.
// Whatever the verdict, and whatever Answered says later, Close must follow, and not
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
	case d.opens || d.opening: // counted once; this looks at what is behind that
		h.post(op, OpValidate, d, now)
	default:
		d.opening = true
		h.post(op, OpOpen, d, now)
	}
	return Post
}

// Check asks whether one thing may be served under d, where it need not stay so.
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

// Close ends a use. Where it returns true, op is to be posted: that was the last
// one.
func (h *Holder) Close(d *Delegation, op *Op, now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.users--
	if d.users > 0 || !d.opens || d.state != valid {
		return false // of an older generation there is nothing to be closed (rule e)
	}
	d.opens = false
	d.good.Store(false)
	h.post(op, OpClose, d, now)
	return true
}

// Forget ends a delegation that has no uses and under which nothing is cached any
// more. The server finds it unused; where it recalls it all the same, that is
// answered.
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

// Answered takes the answer to op: what the word held before. It says whether what
// op was posted for may be served (rules a and f).
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
	case d.state != valid: // kind 1 has come
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
	// Answers come in order, so if the lease was in doubt, the add that ended that was
	// done before op was.
	d.good.Store(d.opens)
	if int64(now) >= h.until.Load() {
		return Doubt
	}
	return Serve
}
