package delegation

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Holder is the set of delegations that a client holds on one connection. The
// Holder ends with the connection: on the next connection, the client holds
// nothing.
//
// The caller must call Immediate and Answered on the goroutine that reads the
// connection, in the order of arrival.
type Holder struct {
	words uint32 // of the server's region

	until atomic.Int64 // the client trusts its lease before this time, in nanoseconds

	mu       sync.Mutex
	slots    map[uint32]*slot // with any known state
	held     int              // delegations
	seq      uint64           // number of the latest post
	over     bool
	lease    time.Duration // shortest lease received with a grant; 0: none received
	heard    bool          // an add to LeaseWord has been answered
	sent     time.Duration // when the latest answered add was posted
	run      uint64        // seq of the add that last ended a doubt about the lease
	adds     int           // under way
	added    time.Duration // when the latest add was posted
	asking   int           // ACQUIREs under way
	early    map[Grant]struct{}
	voidedTo uint64 // ACQUIREs up to this seq are void
	fx       Posts
}

// NewHolder returns the Holder of a new connection. words is the number of
// words in the server's region.
func NewHolder(words uint32) *Holder {
	return &Holder{words: words, slots: make(map[uint32]*slot), early: make(map[Grant]struct{})}
}

// Posts are the effects that the caller must carry out after a call.
type Posts struct {
	// Returns are answers to recalls, to post in this order.
	Returns []Immediate

	// Drops are delegations under which nothing may be served any more. For
	// each Recalled delegation, the caller must call Dropped when that is
	// ensured; the server waits for Dropped.
	Drops []*Delegation
}

// posts returns the effects gathered in fx. The caller holds h.mu.
func (h *Holder) posts() Posts {
	fx := h.fx
	h.fx = Posts{}
	return fx
}

// A slot is the Holder's state of one of the server's slots.
type slot struct {
	d    *Delegation // nil: none known
	ops  int         // atomic operations under way
	owed []uint32    // recalled generations to answer when ops is 0
}

// A Delegation is a client's right to cache one object.
type Delegation struct {
	// Set at creation.
	Slot       uint32
	Generation uint32
	Types      Types

	Owner any // the caller's own

	// good says that cached data may be served without an atomic operation as
	// long as the lease is trusted: the server counts an open, and the
	// generation was granted, or confirmed by an answer, since the lease was
	// last in doubt.
	good atomic.Bool

	state   state
	opens   bool // the server's word counts our open
	opening bool // the operation that counts our open is under way
	users   int
}

// state is the state of a Delegation.
type state uint8

const (
	valid    state = iota
	recalled       // kind 1 has arrived; kind 2 follows when all is dropped
	void           // nothing to return
)

// An Op is an atomic operation that the caller must post: FetchAdd with
// Kind.Operands() on the word. The caller owns the memory, and may reuse the Op
// after Answered.
type Op struct {
	Kind OpKind
	Word uint32 // index into the server's region

	d      *Delegation
	posted time.Duration
	seq    uint64 // of OpRenew
}

// post fills in op.
func (h *Holder) post(op *Op, kind OpKind, d *Delegation, now time.Duration) {
	h.seq++
	*op = Op{Kind: kind, d: d, posted: now, seq: h.seq}
	if d != nil {
		op.Word = d.Slot
		h.slot(d.Slot).ops++
	}
}

// slot returns the state of slot n, and creates the state if necessary.
func (h *Holder) slot(n uint32) *slot {
	s := h.slots[n]
	if s == nil {
		s = new(slot)
		h.slots[n] = s
	}
	return s
}

// answerRecalls answers the recalls of a slot without operations under way
// (rule e), and forgets the slot if no state is left.
func (h *Holder) answerRecalls(n uint32, s *slot) {
	if s.ops > 0 {
		return
	}
	for _, generation := range s.owed {
		h.fx.Returns = append(h.fx.Returns, Immediate{KindReturned, n, generation})
	}
	if s.owed = nil; s.d == nil {
		delete(h.slots, n)
	}
}

// leave makes d unusable and adds d to the Drops.
func (h *Holder) leave(d *Delegation, as state) {
	d.state = as
	d.good.Store(false)
	s := h.slots[d.Slot]
	if s != nil && s.d == d && as == void {
		s.d = nil
		h.held--
		h.answerRecalls(d.Slot, s)
	}
	h.fx.Drops = append(h.fx.Drops, d)
}

// Recalled reports whether d has been recalled. If so, the caller must call
// Dropped.
func (h *Holder) Recalled(d *Delegation) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return d.state == recalled
}

// Disconnect says that the connection has ended. All delegations end with the
// connection. Disconnect does not wait for Dropped, and nothing is posted any
// more.
func (h *Holder) Disconnect() Posts {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.until.Store(0)
	for _, s := range h.slots {
		if s.d != nil {
			h.leave(s.d, void)
		}
	}
	clear(h.slots)
	h.fx.Returns = nil
	return h.posts()
}
