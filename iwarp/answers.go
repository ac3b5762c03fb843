package iwarp

import (
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A response answers an RDMA Read Request or an Atomic Request of the peer.
type response struct {
	atomic bool

	region *region // pinned; nil for a zero-length read
	data   []byte
	sink   rdma.Remote

	answer rdmap.AtomicResponse
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
	q.kick(c)
}

// readAnswered notes that the oldest RDMA Read has its whole response.
func (q *sendQueue) readAnswered(c *Conn) {
	q.mu.Lock()
	q.completeLocked(c, q.reads.pop().wr)
}

// atomicAnswered notes the response to the oldest atomic operation, and reports
// whether it is one to that.
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
	q.kick(c) // others may have waited for it
	q.deliver()
}
