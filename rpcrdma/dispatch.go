package rpcrdma

import (
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
	queued  []*queue // with waiting calls: the next first
}

// A queue is the calls of a party. The dispatcher's lock guards it.
type queue struct {
	running int
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
		d.queued = append(d.queued, q)
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

// next returns a call for the goroutine that has finished a call of q, or nil.
// If more calls may run, next starts goroutines for them.
func (d *dispatcher) next(q *queue) (first *call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	q.running--
	for refused := 0; refused < len(d.queued); {
		k := d.queued[0]
		copy(d.queued, d.queued[1:])
		d.queued = d.queued[:len(d.queued)-1]
		if !d.fitsLocked(k) {
			d.queued = append(d.queued, k)
			refused++
			continue
		}
		refused = 0
		cl := k.pop()
		if k.head != nil {
			d.queued = append(d.queued, k)
		}
		d.startLocked(k)
		if first == nil {
			first = cl
		} else {
			d.pool.Go(cl)
		}
	}
	return first
}

// close ends the idle goroutines. No submit may follow.
func (d *dispatcher) close() { d.pool.Close() }
