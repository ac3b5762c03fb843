package delegation

import (
	"fmt"
	"slices"
	"time"
)

// The world of the explorer consists of one file, its server, and two clients
// with one slot each. Every possible event is an explicit action, and nothing
// happens spontaneously: messages wait on the wire, calls wait for a thread,
// time stands still.

// Times in the world.
const (
	modelLease = 24 * time.Millisecond
	modelStep  = modelLease / 3
)

// A budget bounds how often each event happens, so that the exploration ends.
type budget struct {
	asks, opens, checks, closes [2]int // ACQUIREs and uses by each client
	changes                     [3]int // by each client, and from elsewhere

	reclaims int // by the server, for lack of room
	steps    int // of time: a third of a lease each
	renews   int // by each client, beyond the first
	blind    int // changes that do not name their objects
	cuts     int // of either connection, by either side

	postpone bool // the server may answer changes with NFS3ERR_JUKEBOX
	slow     bool // the server's messages stay in its send queue for a time
	direct   bool // a client's messages arrive at once
}

// A world is one state.
type world struct {
	now     time.Duration
	g       *Grantor
	version int // of the file
	ends    [2]*end
	changes []*change
	left    budget
	wrong   string
}

var fileKey = []byte("file")

// A change is a change under way at the server.
type change struct {
	ch    *Change
	by    int // client, or 2 for elsewhere
	ready bool
}

// An end is a client, and the messages between the client and the server.
type end struct {
	conn  *Conn
	words *memWords
	h     *Holder

	up    []*message // on the wire to the server
	queue []*message // posted by the server, but not sent
	down  []*message // on the wire to the client
	calls []*call    // ACQUIREs at the server
	come  []*message // replies not yet processed

	d       *Delegation
	cached  int   // version
	own     int   // the client's own latest version
	using   int   // uses that may be closed
	pending []*Op // operations under way that begin or check a use
	asked   []int // the version when each was posted
	lasting []*Op // those of pending that last until Close
	renewed int
	drop    *Delegation
	former  *Delegation // lost while in use
	closing int         // uses of former

	out      []Grant // unanswered recalls, from the server's view
	returned []Grant
	ending   bool // the server is ending the connection
	cut      bool // the server knows that the connection has ended
	gone     bool // the client knows that the connection has ended
}

// A message is one of the following: an atomic operation or its answer,
// Immediate Data, a call or its reply.
type message struct {
	op       *Op
	original uint64
	imm      *Immediate
	call     *call
}

// A call is an ACQUIRE.
type call struct {
	a       Asking
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

// do executes an atomic operation of the client.
func (m *memWords) do(op *Op) (original uint64) {
	original = m.w[op.Word]
	m.w[op.Word] = op.Kind.Operands().FetchAdd(original)
	return original
}

func newWorld(b budget) *world {
	g, err := NewGrantor(Config{Lease: modelLease, Slots: 2})
	if err != nil {
		panic(err)
	}
	w := &world{now: time.Hour, g: g, left: b}
	for i := range w.ends {
		words := &memWords{make([]uint64, 2)}
		w.ends[i] = &end{words: words, h: NewHolder(2)}
		w.ends[i].conn = g.Attach(words, 1, "", w.ends[i])
	}
	return w
}

func (w *world) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

// server carries out the Grantor's effects.
func (w *world) server(fx Effects) {
	for _, r := range fx.Recalls {
		e := r.Conn.Owner.(*end)
		e.queue = append(e.queue, &message{imm: &r.Immediate})
		e.out = append(e.out, Grant{r.Slot, r.Generation})
	}
	for _, c := range fx.Cuts {
		c.Conn.Owner.(*end).ending = true
	}
	for _, ch := range fx.Ready {
		for _, c := range w.changes {
			c.ready = c.ready || c.ch == ch
		}
	}
	for _, e := range w.ends {
		for !w.left.slow && len(e.queue) > 0 {
			w.send(e)
		}
	}
}

// send moves the server's oldest posted message to the wire.
func (w *world) send(e *end) {
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

// client carries out the Holder's effects.
func (w *world) client(e *end, fx Posts) {
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
				w.fail("slot %d is returned while an operation on it is under way", m.Slot)
			}
		}
		e.returned = append(e.returned, Grant{m.Slot, m.Generation})
		w.post(e, &message{imm: &m})
	}
}

// post puts a message on the wire to the server.
func (w *world) post(e *end, m *message) {
	if m.op != nil && m.op.d != nil && slices.Contains(e.returned, Grant{m.op.Word, m.op.d.Generation}) {
		w.fail("an operation %d for a generation that has been returned", m.op.Kind)
	}
	if e.gone || e.cut {
		return
	}
	e.up = append(e.up, m)
	for w.left.direct && len(e.up) > 0 {
		w.arrive(e)
	}
}

// arrive processes the oldest message on the wire to the server.
func (w *world) arrive(e *end) {
	m := e.up[0]
	e.up = e.up[1:]
	switch {
	case m.op != nil: // the provider answers, ahead of all posted messages
		e.down = append(e.down, &message{op: m.op, original: e.words.do(m.op)})
	case m.imm != nil:
		e.out = slices.DeleteFunc(e.out, func(g Grant) bool { return g == Grant{m.imm.Slot, m.imm.Generation} })
		w.server(w.g.Immediate(e.conn, m.imm.Bytes()))
	default:
		e.calls = append(e.calls, m.call)
	}
}

// take processes the oldest message on the wire to the client.
func (w *world) take(e *end) {
	m := e.down[0]
	e.down = e.down[1:]
	switch {
	case m.op != nil:
		v, fx := e.h.Answered(m.op, m.original, w.now)
		if i := slices.Index(e.pending, m.op); i >= 0 {
			if v == Serve && e.cached < e.asked[i] {
				w.fail("version %d is served, but version %d existed before the request", e.cached, e.asked[i])
			}
			e.pending, e.asked = slices.Delete(e.pending, i, i+1), slices.Delete(e.asked, i, i+1)
			e.using += e.opening(m.op)
		}
		w.client(e, fx)
	case m.imm != nil:
		fx, err := e.h.Immediate(m.imm.Bytes())
		if err != nil {
			w.fail("%v", err)
		}
		w.client(e, fx)
	default:
		e.come = append(e.come, m)
	}
}

// opening returns 1 if op was for a use that lasts until Close.
func (e *end) opening(op *Op) int {
	if i := slices.Index(e.lasting, op); i >= 0 {
		e.lasting = slices.Delete(e.lasting, i, i+1)
		return 1
	}
	return 0
}

// serve checks that nothing stale can be served in the current state.
func (w *world) serve() {
	for i, e := range w.ends {
		if e.d != nil && e.h.Trusts(e.d, w.now) && e.cached != w.version {
			w.fail("client %d trusts version %d, and the file is at %d", i, e.cached, w.version)
		}
	}
}
