package delegation

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Holder is what a client holds on one connection. It ends with the connection:
// on the next one, the client holds nothing.
//
// Immediate and Answered are to be called on the goroutine that reads the
// connection, in the order in which things came in.
type Holder struct {
	words uint32 // of the server's region

	until atomic.Int64 // the client trusts its lease before this time, in nanoseconds

	mu       sync.Mutex
	slots    map[uint32]*slot // that anything is known of
	held     int              // delegations
	seq      uint64           // of what was posted last
	over     bool
	lease    time.Duration // the shortest that came with a grant; 0: none has come
	heard    bool          // an add to LeaseWord has been answered
	sent     time.Duration // when the last answered one was posted
	run      uint64        // the add since which the lease has not been in doubt
	adds     int           // under way
	added    time.Duration // when the last was posted
	asking   int           // ACQUIREs under way
	early    map[Grant]struct{}
	voidedTo uint64 // what was asked for up to here is void
	fx       Posts
}

// NewHolder returns the Holder of a new connection to a server whose region has so
// many words.
func NewHolder(words uint32) *Holder {
	return &Holder{words: words, slots: make(map[uint32]*slot), early: make(map[Grant]struct{})}
}

// Posts are what the caller has to do after a call.
type Posts struct {
	// Returns are answers to recalls, to be posted in this order.
	Returns []Immediate

	// Drops are delegations under which nothing may be served any more.
	// Where one is Recalled, Dropped is to be called when that is so; the
	// server waits for it.
	Drops []*Delegation
}

// posts returns what has gathered in fx. The caller holds h.mu.
func (h *Holder) posts() Posts {
	fx := h.fx
	h.fx = Posts{}
	return fx
}

// A slot is what a Holder knows of a slot of the server's.
type slot struct {
	d    *Delegation // nil: none that is known
	ops  int         // atomic operations under way
	owed []uint32    // recalled generations to be answered when there are none
}

// A Delegation is what a client holds of one object.
type Delegation struct {
	// Set when it is made.
	Slot       uint32
	Generation uint32
	Types      Types

	Owner any // the caller's own

	// good says that things may be served without an atomic operation as
	// long as the lease is trusted: an open is counted, and the generation
	// was seen, or granted, since the lease was last in doubt.
	good atomic.Bool

	state   state
	opens   bool // the server's word counts an open of ours
	opening bool // it soon will
	users   int
}

// state is how a Delegation stands.
type state uint8

const (
	valid    state = iota
	recalled       // kind 1 has come; kind 2 goes when all is dropped
	void           // there is nothing to return
)

// An Op is an atomic operation that the caller posts: FetchAdd with
// Kind.Operands() on the word. It is the caller's memory, and may be used again
// once Answered has been called.
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

// slot returns what is known of a slot.
func (h *Holder) slot(n uint32) *slot {
	s := h.slots[n]
	if s == nil {
		s = new(slot)
		h.slots[n] = s
	}
	return s
}

// answerRecalls answers the recalls of a slot that no operation is under way on (rule e),
// and forgets it if nothing is left.
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

// leave ends d as one that can be used.
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

// Recalled tells whether d has been recalled, so that Dropped must be called.
func (h *Holder) Recalled(d *Delegation) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return d.state == recalled
}

// Disconnect says that the connection has ended, and all delegations with it. It
// does not wait for Dropped, and nothing is posted any more.
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
