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

// drain waits until nobody writes.
func (q *sendQueue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing {
		q.idle.Wait()
	}
}

// shut waits until every work request has completed, and then has nothing more
// sent. It returns false where the sending has ended otherwise.
func (q *sendQueue) shut() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.broken && (q.writing || q.head < q.tail) {
		q.idle.Wait()
	}
	first := !q.broken
	q.stopLocked() // a response would be torn by the FIN that comes now
	return first
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
	q.closed = true
	q.stopLocked()
	for q.head < q.tail {
		q.popLocked(cause)
	}
	q.written, q.next = q.head, q.head
	q.idle.Broadcast()
	q.mu.Unlock()
	q.deliver(false)
}

// stopLocked, with the queue locked and nobody cutting messages, has nothing more
// sent. The responses go at once and not with the rest: the reader, whose end
// gives that up, may be waiting in Deregister for the memory that they answer from.
func (q *sendQueue) stopLocked() {
	q.broken = true
	q.releaseResponses()
}

// releaseResponses gives up the responses that will not be sent, and the rest of the
// current message: the writer does that where it is at it. It may be called again.
func (q *sendQueue) releaseResponses() {
	if q.overtaken = q.copying; !q.copying {
		q.cur.release()
	}
	for q.responses.len() > 0 {
		if r := q.responses.pop(); r.region != nil {
			r.region.unpin()
		}
	}
}
