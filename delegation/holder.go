package delegation

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Holder is the set of delegations that a client holds on one connection.
// When the connection closes, they end: on the next connection, the client
// holds nothing.
//
// The caller must call Immediate and Answered on the goroutine that reads the
// connection, in the order of arrival.
type Holder struct {
	wordCount uint32 // in the server's region

	trustedUntil atomic.Int64 // the client trusts its lease before this time, in nanoseconds

	mu               sync.Mutex
	slots            map[uint32]*slotState // with any known state
	delegationCount  int                   // delegations
	lastSeq          uint64                // number of the latest post
	ended            bool
	shortestLease    time.Duration // shortest lease received with a grant; 0: none received
	renewAnswered    bool          // an add to LeaseWord has completed
	lastRenewPosted  time.Duration // when the latest completed add was posted
	trustSeq         uint64        // seq of the add that last restored trust in the lease
	renewalsInFlight int           // in progress
	lastRenewal      time.Duration // when the latest add was posted
	acquiresInFlight int           // ACQUIREs in flight
	earlyRecalls     map[Grant]struct{}
	voidedUpTo       uint64 // ACQUIREs up to this seq are void
	pending          Posts
}

// NewHolder returns the Holder for a new connection. words is the number of
// words in the server's region.
func NewHolder(words uint32) *Holder {
	return &Holder{wordCount: words, slots: make(map[uint32]*slotState), earlyRecalls: make(map[Grant]struct{})}
}

// Posts are the effects that the caller must perform after a call.
type Posts struct {
	// Returns are replies to recalls, to post in this order.
	Returns []Immediate

	// Drops are delegations under which nothing more may be served. For each
	// Recalled delegation, the caller must call Dropped when that is ensured;
	// the server waits for it.
	Drops []*Delegation
}

// takePosts returns and clears the pending effects. The caller must hold h.mu.
func (h *Holder) takePosts() Posts {
	fx := h.pending
	h.pending = Posts{}
	return fx
}

// A slotState is the Holder's state for one of the server's slots.
type slotState struct {
	delegation  *Delegation // nil if none is known
	opsInFlight int         // atomic operations in flight
	owedReturns []uint32    // recalled generations to return when opsInFlight is 0
}

// A Delegation is a client's right to cache one object.
type Delegation struct {
	// These fields are set at creation.
	Slot       uint32
	Generation uint32
	Types      Types

	Owner any // for the caller

	// confirmed says that cached data may be served without an atomic operation
	// while the lease is trusted: the server counts an open, and the generation
	// was granted, or confirmed by an operation, since the lease was last in
	// doubt.
	confirmed atomic.Bool

	state     delegationState
	isOpen    bool // the server's word counts this client's open
	opening   bool // the operation that adds the open is in flight
	userCount int
}

// A delegationState is the state of a Delegation.
type delegationState uint8

const (
	stateValid    delegationState = iota
	stateRecalled                 // kind 1 has arrived; kind 2 follows after Dropped
	stateVoid                     // nothing to return
)

// An Op is an atomic operation that the caller must post: FetchAdd with
// Kind.Operands() on Word. The caller owns the memory, and may reuse the Op
// after Answered.
type Op struct {
	Kind OpKind
	Word uint32 // index into the server's region

	delegation *Delegation
	posted     time.Duration
	seq        uint64 // sequence number, for OpRenew
}

// prepareOp fills in op, and counts it as in flight.
func (h *Holder) prepareOp(op *Op, kind OpKind, d *Delegation, now time.Duration) {
	h.lastSeq++
	*op = Op{Kind: kind, delegation: d, posted: now, seq: h.lastSeq}
	if d != nil {
		op.Word = d.Slot
		h.slotAt(d.Slot).opsInFlight++
	}
}

// slotAt returns slot n's state, and creates it if necessary.
func (h *Holder) slotAt(n uint32) *slotState {
	s := h.slots[n]
	if s == nil {
		s = new(slotState)
		h.slots[n] = s
	}
	return s
}

// answerRecalls returns a slot's recalled generations if no operation is in
// flight (rule e), and removes the slot's state if it is empty.
func (h *Holder) answerRecalls(n uint32, s *slotState) {
	if s.opsInFlight > 0 {
		return
	}
	for _, generation := range s.owedReturns {
		h.pending.Returns = append(h.pending.Returns, Immediate{KindReturned, n, generation})
	}
	if s.owedReturns = nil; s.delegation == nil {
		delete(h.slots, n)
	}
}

// dropDelegation makes d unusable and adds it to the Drops.
func (h *Holder) dropDelegation(d *Delegation, as delegationState) {
	d.state = as
	d.confirmed.Store(false)
	s := h.slots[d.Slot]
	if s != nil && s.delegation == d && as == stateVoid {
		s.delegation = nil
		h.delegationCount--
		h.answerRecalls(d.Slot, s)
	}
	h.pending.Drops = append(h.pending.Drops, d)
}

// Recalled reports whether d has been recalled. If so, the caller must call
// Dropped.
func (h *Holder) Recalled(d *Delegation) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return d.state == stateRecalled
}

// Disconnect must be called when the connection has closed. All delegations
// end. Disconnect does not wait for Dropped, and nothing more is posted.
func (h *Holder) Disconnect() Posts {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.trustedUntil.Store(0)
	for _, s := range h.slots {
		if s.delegation != nil {
			h.dropDelegation(s.delegation, stateVoid)
		}
	}
	clear(h.slots)
	h.pending.Returns = nil
	return h.takePosts()
}
