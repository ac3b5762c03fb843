package iwarp

import (
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// A response is the reply to an RDMA Read Request or an Atomic Request from the
// peer.
type response struct {
	atomic bool

	read   inboundRead
	region *region // pinned; nil for a zero-length read
	data   []byte

	atomicResult rdmap.AtomicResponse
}

// An inboundRead is an RDMA Read Request from the peer, with its DDP header.
type inboundRead struct {
	header [ddp.UntaggedLen]byte
	rdmap.ReadRequest
}

// queueResponse queues the response to a peer's request.
func (q *sendQueue) queueResponse(c *Conn, r response) {
	q.mu.Lock()
	if q.broken {
		q.mu.Unlock()
		if r.region != nil {
			r.region.unpin()
		}
		return
	}
	q.responses.push(r)
	q.heldBytes += len(r.data)
	q.noPosts = false
	q.startWriterUnlock(c)
}

// abortReadsFrom aborts the RDMA Reads from r when the peer has invalidated r before it received
// the responses: the memory's owner may reuse it now. abortReadsFrom returns the fault, with the
// unsent part of the first such Read (RFC 5040, Section 4.8), or nil if no Read is aborted. Only
// the Terminate follows the bytes that are already in FPDUs.
func (q *sendQueue) abortReadsFrom(r *region) *Fault {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken {
		return nil
	}
	var f *Fault
	if q.cur.region == r {
		f = q.cur.read.newFault(rdmap.ErrInvalidSTag, uint32(q.cur.offset))
	}
	for _, resp := range q.responses.all() {
		if f == nil && resp.region == r {
			f = resp.read.newFault(rdmap.ErrInvalidSTag, 0)
		}
	}
	if f == nil {
		return nil
	}
	q.releaseResponses()
	q.terminate = &f.Terminate
	return f
}

// completeRead marks the oldest RDMA Read complete. The reader delivers the
// completion.
func (q *sendQueue) completeRead(c *Conn) {
	q.mu.Lock()
	q.completeLocked(c, q.reads.pop().wr)
}

// completeAtomic stores the response to the oldest atomic operation, and
// reports whether r has that operation's ID. The reader delivers the
// completion.
func (q *sendQueue) completeAtomic(c *Conn, r rdmap.AtomicResponse) bool {
	q.mu.Lock()
	o := q.atomics.pop()
	if o.id != r.ID {
		q.mu.Unlock()
		return false
	}
	q.requestAt(o.wr).original = r.Original
	q.completeLocked(c, o.wr)
	return true
}

// completeLocked, with the queue locked, completes the work request at index i
// and unlocks the queue.
func (q *sendQueue) completeLocked(c *Conn, i uint64) {
	q.requestAt(i).complete = true
	q.finishLocked()
	q.startWriterUnlock(c) // other requests may be waiting for it
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
