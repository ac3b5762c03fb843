package rpcrdma

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/work"
)

// A callQueue is a list of calls, first in, first out. It costs no memory of
// its own; a call stands in one queue at a time.
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

// A dispatcher runs calls on a pool of goroutines, so many at once, and keeps
// the others in order. Its queue is bounded by what the connections take.
type dispatcher struct {
	max  int
	pool work.Pool

	mu      sync.Mutex
	running int
	queue   callQueue
}

// submit hands a call over to a goroutine of the pool. It does not wait.
func (d *dispatcher) submit(cl *call) {
	d.mu.Lock()
	if d.running >= d.max {
		d.queue.push(cl)
		d.mu.Unlock()
		return
	}
	d.running++
	d.mu.Unlock()
	d.pool.Go(cl)
}

// run serves calls on the present goroutine, cl first if it is not nil, for as long
// as there are any.
func (d *dispatcher) run(cl *call) {
	if cl == nil {
		cl = d.next()
	}
	for ; cl != nil; cl = d.next() {
		cl.serve()
	}
}

// adopt counts a goroutine that serves a call already. It will call run.
func (d *dispatcher) adopt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running++
}

// next returns a call for the goroutine that has done one, or nil.
func (d *dispatcher) next() *call {
	d.mu.Lock()
	defer d.mu.Unlock()
	cl := d.queue.pop()
	if cl == nil {
		d.running--
	}
	return cl
}

// close ends the goroutines when they have nothing to do. No submit may
// follow.
func (d *dispatcher) close() { d.pool.Close() }
