package rpcrdma

import (
	"container/list"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/workpool"
)

// A callQueue is a list of calls, first in, first out. It needs no memory of
// its own; a call is in one queue at a time.
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

// A dispatcher runs a bounded number of calls on a pool of goroutines, and
// queues the rest of each party in order. A party may have half of the
// goroutines that are left, so that one party's waiting calls cannot occupy all
// of them. The queues are bounded by the limits of the connections.
type dispatcher struct {
	max  int
	pool workpool.Pool

	mu      sync.Mutex
	running int
	queued  list.List // the *queue of each party with waiting calls: the next first
}

// A queue is the calls of a party. The dispatcher's lock guards it.
type queue struct {
	running int
	turn    *list.Element // in the dispatcher's queued
	callQueue
}

// submit hands a call to a goroutine of the pool. It does not wait.
func (d *dispatcher) submit(cl *call) {
	q := cl.queue()
	d.mu.Lock()
	if q.head == nil && d.fitsLocked(q) {
		d.startLocked(q)
		d.mu.Unlock()
		d.pool.Go(cl)
		return
	}
	if q.head == nil {
		q.turn = d.queued.PushBack(q)
	}
	q.push(cl)
	d.mu.Unlock()
}

func (cl *call) queue() *queue { return cl.conn.party.Own.queue }

// fitsLocked reports whether one more call of q may run. One call of a party
// always may. Relieved readers are counted even above the bound.
func (d *dispatcher) fitsLocked(q *queue) bool {
	return q.running == 0 || q.running < d.max-d.running
}

func (d *dispatcher) startLocked(q *queue) {
	d.running++
	q.running++
}

// run serves calls on the current goroutine until there are no more. It begins
// with cl or, if cl is nil, with the successor of a call of q that the
// goroutine has served.
func (d *dispatcher) run(cl *call, q *queue) {
	if cl == nil {
		cl = d.next(q)
	}
	for cl != nil {
		q = cl.queue()
		cl.serve()
		cl = d.next(q)
	}
}

// adopt counts a goroutine that already serves a call of a party. That
// goroutine must call run afterwards.
func (d *dispatcher) adopt(q *queue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.startLocked(q)
}

// tryAdopt is adopt if the call may run now. It returns false if the call must
// wait its turn.
func (d *dispatcher) tryAdopt(q *queue) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.head != nil || !d.fitsLocked(q) {
		return false
	}
	d.startLocked(q)
	return true
}

// next returns a call for the goroutine that has finished a call of q, or nil.
// If more calls may run, next starts goroutines for them. A party that may not
// run one keeps its turn.
//
// Each queued party runs a call, but for q, which may have run its last.
// Therefore the loop meets fewer than max parties: if so many run calls that
// only q's may start, next asks no other.
func (d *dispatcher) next(q *queue) (first *call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	q.running--
	if d.max-d.running <= 1 {
		if q.head != nil && d.fitsLocked(q) {
			first = d.takeLocked(q)
		}
		return first
	}
	for e := d.queued.Front(); e != nil; {
		k, after := e.Value.(*queue), e.Next()
		if !d.fitsLocked(k) {
			e = after
			continue
		}
		if cl := d.takeLocked(k); first == nil {
			first = cl
		} else {
			d.pool.Go(cl)
		}
		if e = after; e == nil {
			e = k.turn // last, and perhaps it may run another
		}
	}
	return first
}

// takeLocked takes the first call of a queued party, whose next call waits for
// those of the other parties.
func (d *dispatcher) takeLocked(q *queue) *call {
	cl := q.pop()
	if q.head != nil {
		d.queued.MoveToBack(q.turn)
	} else {
		d.queued.Remove(q.turn)
		q.turn = nil
	}
	d.startLocked(q)
	return cl
}

// close ends the idle goroutines. No submit may follow.
func (d *dispatcher) close() { d.pool.Close() }
