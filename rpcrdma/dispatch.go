package rpcrdma

import (
	"container/list"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/workpool"
)

// A callQueue is an intrusive first-in, first-out list of calls. A call is in
// at most one queue at a time.
type callQueue struct{ head, tail *call }

func (q *callQueue) push(cl *call) {
	if q.tail == nil {
		q.head = cl
	} else {
		q.tail.next = cl
	}
	q.tail = cl
}

func (q *callQueue) pop() *call {
	cl := q.head
	if cl == nil {
		return nil
	}
	if q.head = cl.next; q.head == nil {
		q.tail = nil
	}
	cl.next = nil
	return cl
}

// A dispatcher runs a bounded number of calls on a goroutine pool, and queues
// each party's other calls in order. A party may use at most half of the
// remaining goroutines, so that one party's blocked calls cannot occupy all of
// them. The connections' limits bound the queues.
type dispatcher struct {
	max  int
	pool workpool.Pool

	mu      sync.Mutex
	running int
	queued  list.List // the *partyQueue of each party with waiting calls, next first
}

// A partyQueue holds a party's waiting calls. The dispatcher's lock guards it.
type partyQueue struct {
	running int
	element *list.Element // this queue's element in the dispatcher's queued list
	callQueue
}

// submit passes a call to a pool goroutine. It does not wait.
func (d *dispatcher) submit(cl *call) {
	q := cl.partyQueue()
	d.mu.Lock()
	if q.head == nil && d.canRunLocked(q) {
		d.countStartLocked(q)
		d.mu.Unlock()
		d.pool.Go(cl)
		return
	}
	if q.head == nil {
		q.element = d.queued.PushBack(q)
	}
	q.push(cl)
	d.mu.Unlock()
}

func (cl *call) partyQueue() *partyQueue { return cl.conn.party.Own.queue }

// canRunLocked reports whether one more call from q may run. A party may always
// run one call. Replaced readers count even above the bound.
func (d *dispatcher) canRunLocked(q *partyQueue) bool {
	return q.running == 0 || q.running < d.max-d.running
}

func (d *dispatcher) countStartLocked(q *partyQueue) {
	d.running++
	q.running++
}

// run serves calls on the current goroutine until there are no more. It begins
// with cl or, if cl is nil, with the successor of a call from q that the
// goroutine has served.
func (d *dispatcher) run(cl *call, q *partyQueue) {
	if cl == nil {
		cl = d.nextCall(q)
	}
	for cl != nil {
		q = cl.partyQueue()
		cl.serve()
		cl = d.nextCall(q)
	}
}

// adoptGoroutine counts a goroutine that is already serving a party's call.
// That goroutine must call run afterwards.
func (d *dispatcher) adoptGoroutine(q *partyQueue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.countStartLocked(q)
}

// tryAdopt counts the goroutine, as adoptGoroutine does, if its call may run
// now. It returns false if the call must wait its turn.
func (d *dispatcher) tryAdopt(q *partyQueue) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.head != nil || !d.canRunLocked(q) {
		return false
	}
	d.countStartLocked(q)
	return true
}

// nextCall returns the next call for the goroutine that has finished a call from q, or nil. If more
// calls may run, nextCall starts goroutines for them. A party that may not run one keeps its turn.
//
// Each queued party is running a call, except perhaps q's, whose last one may
// have finished. Therefore the loop visits fewer than max parties: if so many
// are running calls that only q's may start, nextCall considers no other.
func (d *dispatcher) nextCall(q *partyQueue) (first *call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	q.running--
	if d.max-d.running <= 1 {
		if q.head != nil && d.canRunLocked(q) {
			first = d.takeFirstLocked(q)
		}
		return first
	}
	for e := d.queued.Front(); e != nil; {
		k, after := e.Value.(*partyQueue), e.Next()
		if !d.canRunLocked(k) {
			e = after
			continue
		}
		if cl := d.takeFirstLocked(k); first == nil {
			first = cl
		} else {
			d.pool.Go(cl)
		}
		if e = after; e == nil {
			e = k.element // the last one, which may perhaps run another
		}
	}
	return first
}

// takeFirstLocked removes a queued party's first call, and moves the party behind the others.
func (d *dispatcher) takeFirstLocked(q *partyQueue) *call {
	cl := q.pop()
	if q.head != nil {
		d.queued.MoveToBack(q.element)
	} else {
		d.queued.Remove(q.element)
		q.element = nil
	}
	d.countStartLocked(q)
	return cl
}

// close stops the idle goroutines. No submit may follow.
func (d *dispatcher) close() { d.pool.Close() }
