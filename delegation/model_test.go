package delegation

import (
	"fmt"
	"slices"
	"time"
)

// The explored model consists of one file, its server, and two clients with one
// slot each. Every possible event is an explicit action, and nothing happens
// spontaneously: messages wait on the wire, calls wait for a thread, and time
// does not advance.

// Times in the model.
const (
	modelLease = 24 * time.Millisecond
	modelStep  = modelLease / 3
)

// A budget bounds the number of times that each event happens, so that the
// exploration terminates.
type budget struct {
	asks, opens, checks, closes [2]int // ACQUIREs and uses by each client
	changes                     [3]int // by each client, and from elsewhere

	reclaims int // by the server, for lack of memory
	steps    int // time steps: a third of a lease each
	renews   int // by each client, beyond the first
	unnamed  int // changes that do not name their objects
	cuts     int // disconnections by either side

	postpone bool // the server may reply NFS3ERR_JUKEBOX to changes
	slow     bool // the server's messages stay in its send queue for a time
	direct   bool // a client's messages arrive at once
}

// A modelState is one state of the model.
type modelState struct {
	now     time.Duration
	g       *testGrantor
	version int // the file's version
	clients [2]*clientState
	changes []*change
	left    budget
	failure string
}

var fileKey = []byte("file")

// A change is a change in progress at the server.
type change struct {
	ch      *Change
	by      int // client, or 2 for elsewhere
	ready   bool
	unnamed bool
}

// A clientState is a client's state, and the messages between the client and
// the server.
type clientState struct {
	conn  *Conn
	words *memWords
	h     *Holder

	up      []*message // on the wire to the server
	queue   []*message // posted by the server, but not sent
	down    []*message // on the wire to the client
	calls   []*call    // ACQUIREs at the server
	arrived []*message // replies not yet processed

	d       *Delegation
	cached  int   // version
	own     int   // the client's own latest version
	using   int   // uses that may be closed
	pending []*Op // operations in progress that begin or check a use
	asked   []int // the version when each was posted
	lasting []*Op // those of pending that last until Close
	renewed int
	drop    *Delegation
	former  *Delegation // lost while in use
	closing int         // uses of former

	out          []Grant // unanswered recalls, from the server's view
	returned     []Grant
	ending       bool // the server is ending the connection
	cut          bool // the server knows that the connection has closed
	disconnected bool // the client knows that the connection has closed
}

// A message is one of the following: an atomic operation or its response,
// Immediate Data, a call or its reply.
type message struct {
	op       *Op
	original uint64
	imm      *Immediate
	call     *call
}

// A call is an ACQUIRE.
type call struct {
	a       PendingAcquire
	at      *Acquisition
	version int
	res     *AcquireRes
	granted bool
}

// memWords are Words for a single goroutine.
type memWords struct{ w []uint64 }

func (m *memWords) Load(n uint32) uint64 { return m.w[n] }

func (m *memWords) CompareAndSwap(n uint32, old, next uint64) bool {
	if m.w[n] != old {
		return false
	}
	m.w[n] = next
	return true
}

// applyOp executes a client's atomic operation.
func (m *memWords) applyOp(op *Op) (original uint64) {
	original = m.w[op.Word]
	m.w[op.Word] = op.Kind.Operands().FetchAdd(original)
	return original
}

func newModelState(b budget) *modelState {
	g := newTableGrantor(Config{Lease: modelLease, Slots: 2})
	w := &modelState{now: time.Hour, g: g, left: b}
	for i := range w.clients {
		words := &memWords{make([]uint64, 2)}
		w.clients[i] = &clientState{words: words, h: NewHolder(2)}
		w.clients[i].conn = g.Attach(words, 1, "", w.clients[i])
	}
	return w
}

func (w *modelState) recordFailure(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
	}
}

// applyEffects performs the Grantor's effects.
func (w *modelState) applyEffects(fx effects) {
	for _, r := range fx.Recalls {
		e := r.Conn.Owner.(*clientState)
		e.queue = append(e.queue, &message{imm: &r.Immediate})
		e.out = append(e.out, Grant{r.Slot, r.Generation})
	}
	for _, c := range fx.Cuts {
		c.Conn.Owner.(*clientState).ending = true
	}
	for _, ch := range fx.Ready {
		for _, c := range w.changes {
			c.ready = c.ready || c.ch == ch
		}
	}
	for _, e := range w.clients {
		for !w.left.slow && len(e.queue) > 0 {
			w.sendQueued(e)
		}
	}
}

// sendQueued moves the server's oldest posted message to the wire.
func (w *modelState) sendQueued(e *clientState) {
	m := e.queue[0]
	e.queue = e.queue[1:]
	if e.cut {
		return
	}
	e.down = append(e.down, m)
	if m.imm != nil {
		w.g.Sent(Recall{e.conn, *m.imm}, w.now)
	}
}

// applyPosts performs the Holder's effects.
func (w *modelState) applyPosts(e *clientState, fx Posts) {
	for _, d := range fx.Drops {
		if e.d == d {
			e.d, e.former, e.closing = nil, d, e.using
		}
		if e.h.Recalled(d) {
			e.drop = d
		}
	}
	for _, m := range fx.Returns {
		for _, other := range slices.Concat(e.up, e.down) {
			if other.op != nil && other.op.Kind != OpRenew && other.op.Word == m.Slot {
				w.recordFailure("slot %d is returned while an operation on it is under way", m.Slot)
			}
		}
		e.returned = append(e.returned, Grant{m.Slot, m.Generation})
		w.postOp(e, &message{imm: &m})
	}
}

// postOp puts a message on the wire to the server.
func (w *modelState) postOp(e *clientState, m *message) {
	if m.op != nil && m.op.delegation != nil && slices.Contains(e.returned, Grant{m.op.Word, m.op.delegation.Generation}) {
		w.recordFailure("an operation %d for a generation that has been returned", m.op.Kind)
	}
	if e.disconnected || e.cut {
		return
	}
	e.up = append(e.up, m)
	for w.left.direct && len(e.up) > 0 {
		w.deliverToServer(e)
	}
}

// deliverToServer processes the oldest message on the wire to the server.
func (w *modelState) deliverToServer(e *clientState) {
	m := e.up[0]
	e.up = e.up[1:]
	switch {
	case m.op != nil: // the provider responds, ahead of all posted messages
		e.down = append(e.down, &message{op: m.op, original: e.words.applyOp(m.op)})
	case m.imm != nil:
		e.out = slices.DeleteFunc(e.out, func(g Grant) bool { return g == Grant{m.imm.Slot, m.imm.Generation} })
		w.applyEffects(w.g.Immediate(e.conn, m.imm.Bytes()))
	default:
		e.calls = append(e.calls, m.call)
	}
}

// deliverToClient processes the oldest message on the wire to the client.
func (w *modelState) deliverToClient(e *clientState) {
	m := e.down[0]
	e.down = e.down[1:]
	switch {
	case m.op != nil:
		v, fx := e.h.Answered(m.op, m.original, w.now)
		if i := slices.Index(e.pending, m.op); i >= 0 {
			if v == Serve && e.cached < e.asked[i] {
				w.recordFailure("version %d is served, but version %d existed before the request", e.cached, e.asked[i])
			}
			e.pending, e.asked = slices.Delete(e.pending, i, i+1), slices.Delete(e.asked, i, i+1)
			e.using += e.countOpening(m.op)
		}
		w.applyPosts(e, fx)
	case m.imm != nil:
		fx, err := e.h.Immediate(m.imm.Bytes())
		if err != nil {
			w.recordFailure("%v", err)
		}
		w.applyPosts(e, fx)
	default:
		e.arrived = append(e.arrived, m)
	}
}

// countOpening returns 1 if op was for a use that lasts until Close.
func (e *clientState) countOpening(op *Op) int {
	if i := slices.Index(e.lasting, op); i >= 0 {
		e.lasting = slices.Delete(e.lasting, i, i+1)
		return 1
	}
	return 0
}

// checkCached checks that nothing stale can be served in the current state.
func (w *modelState) checkCached() {
	for i, e := range w.clients {
		if e.d != nil && e.h.Trusts(e.d, w.now) && e.cached != w.version {
			w.recordFailure("client %d trusts version %d, and the file is at %d", i, e.cached, w.version)
		}
	}
}
