package iwarp

import (
	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
)

// A response answers an RDMA Read Request or an Atomic Request of the peer.
type response struct {
	atomic bool

	read   askedRead
	region *region // pinned; nil for a zero-length read
	data   []byte

	answer rdmap.AtomicResponse
}

// An askedRead is an RDMA Read Request of the peer, with its DDP header.
type askedRead struct {
	header [ddp.UntaggedLen]byte
	rdmap.ReadRequest
}

// respond queues the answer to a request of the peer.
func (q *sendQueue) respond(c *Conn, r response) {
	q.mu.Lock()
	if q.broken {
		q.mu.Unlock()
		if r.region != nil {
			r.region.unpin()
		}
		return
	}
	q.responses.push(r)
	q.held += len(r.data)
	q.quiet = false
	q.kick(c)
}

// cutShort ends the RDMA Reads of r after the peer has invalidated r before it
// received their response: the owner of the memory may reuse it now. cutShort
// returns the fault, with the unsent part of the first of these Reads (RFC
// 5040, Section 4.8), or nil if no Read is cut short. Only the Terminate
// follows the bytes that are already cut into FPDUs.
func (q *sendQueue) cutShort(r *region) *Fault {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken {
		return nil
	}
	var f *Fault
	if q.cur.region == r {
		f = q.cur.read.fault(rdmap.ErrInvalidSTag, uint32(q.cur.offset))
	}
	for _, resp := range q.responses.all() {
		if f == nil && resp.region == r {
			f = resp.read.fault(rdmap.ErrInvalidSTag, 0)
		}
	}
	if f == nil {
		return nil
	}
	q.releaseResponses()
	q.terminate = &f.Terminate
	return f
}

// readAnswered notes that the oldest RDMA Read has its whole response. The
// reader delivers the completion.
func (q *sendQueue) readAnswered(c *Conn) {
	q.mu.Lock()
	q.completeLocked(c, q.reads.pop().wr)
}

// atomicAnswered notes the response to the oldest atomic operation. It reports
// whether r has the ID of that operation. The reader delivers the completion.
func (q *sendQueue) atomicAnswered(c *Conn, r rdmap.AtomicResponse) bool {
	q.mu.Lock()
	o := q.atomics.pop()
	if o.id != r.ID {
		q.mu.Unlock()
		return false
	}
	q.at(o.wr).original = r.Original
	q.completeLocked(c, o.wr)
	return true
}

// completeLocked, with the queue locked, completes the work request at index i
// and unlocks the queue.
func (q *sendQueue) completeLocked(c *Conn, i uint64) {
	q.at(i).complete = true
	q.finishLocked()
	q.kick(c) // other requests may have waited for it
}

// A fifo is a queue that reuses its memory.
type fifo[T any] struct {
	items []T
	first int
}

func (f *fifo[T]) len() int { return len(f.items) - f.first }

func (f *fifo[T]) push(v T) {
	if len(f.items) == cap(f.items) && f.first > len(f.items)/2 {
		n := copy(f.items, f.items[f.first:])
		clear(f.items[n:])
		f.items, f.first = f.items[:n], 0
	}
	f.items = append(f.items, v)
}

// all returns the items, oldest first.
func (f *fifo[T]) all() []T { return f.items[f.first:] }

// front returns the oldest item, which stays.
func (f *fifo[T]) front() *T { return &f.items[f.first] }

func (f *fifo[T]) pop() T {
	var zero T
	v := f.items[f.first]
	f.items[f.first] = zero
	f.first++
	if f.first == len(f.items) {
		f.items, f.first = f.items[:0], 0
	}
	return v
}
