package iwarp

import "github.com/nfsrdma/nfsrdma/iwarp/rdmap"

// close lets nothing more be posted.
func (q *sendQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// sendTerminate drops what waits to be sent and has a Terminate and a FIN sent
// in its place. It does not wait, and reports whether they will go: not after a
// write that failed, nor from a responder that has got no valid FPDU yet.
func (q *sendQueue) sendTerminate(c *Conn, f *Fault) bool {
	q.mu.Lock()
	if q.broken || q.gated && f.Terminate.Cause.Layer == rdmap.LayerLLP {
		q.mu.Unlock()
		return false
	}
	q.releaseResponses()
	q.terminate = &f.Terminate
	q.kick(c)
	return true
}

// drain waits until nobody writes and, with all, until every work request has
// completed. It returns false where that will not come.
func (q *sendQueue) drain(all bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing || all && q.head < q.tail && !q.broken {
		q.idle.Wait()
	}
	return !q.broken
}

// writeError returns the error of the write that failed, if one did.
func (q *sendQueue) writeError() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// flush completes everything that is left with an error. The reader calls it
// when nobody writes any more, so that nobody else delivers.
func (q *sendQueue) flush(cause error) {
	q.mu.Lock()
	q.closed, q.broken = true, true
	q.releaseResponses()
	for q.head < q.tail {
		q.popLocked(cause)
	}
	q.written, q.next = q.head, q.head
	q.idle.Broadcast()
	q.mu.Unlock()
	q.deliver()
}

// releaseResponses gives up the RDMA Read Responses that will not be sent.
func (q *sendQueue) releaseResponses() {
	q.cur.release()
	for q.responses.len() > 0 {
		if r := q.responses.pop(); r.region != nil {
			r.region.unpin()
		}
	}
}
