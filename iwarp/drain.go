package iwarp

import "github.com/nfsrdma/nfsrdma/iwarp/rdmap"

// close prevents further posts.
func (q *sendQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// sendTerminate drops the data waiting to be sent and queues a Terminate and a
// FIN instead. It does not wait, and reports whether they will be sent. They
// are not sent after a failed write, and a responder that has not received a
// valid FPDU yet sends no Terminate for an error of MPA.
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

// drain waits until there is no writer.
func (q *sendQueue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing {
		q.idle.Wait()
	}
}

// shut waits until every work request has completed, and then stops the
// sending. It returns false if the sending had already stopped.
func (q *sendQueue) shut() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.broken && (q.writing || q.head < q.tail) {
		q.idle.Wait()
	}
	first := !q.broken
	q.stopLocked() // the FIN that follows would cut a response in two
	return first
}

// writeError returns the error of the write that failed, if one did.
func (q *sendQueue) writeError() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// flush completes all remaining work requests with an error. The reader calls
// it when there is no writer any more, so that nothing else delivers.
func (q *sendQueue) flush(cause error) {
	q.mu.Lock()
	q.closed = true
	q.watch.stopLocked()
	q.stopLocked()
	for q.head < q.tail {
		q.popLocked(cause)
	}
	q.written, q.next = q.head, q.head
	q.idle.Broadcast()
	q.mu.Unlock()
	q.deliver(false)
}

// stopLocked stops the sending. The caller holds the queue's lock, and no other
// goroutine cuts messages. The responses are released at once, not later by
// flush: the reader, which calls flush at its end, may be waiting in Deregister
// for the memory that the responses send.
func (q *sendQueue) stopLocked() {
	q.broken = true
	q.releaseResponses()
}

// releaseResponses drops the responses that will not be sent, and the rest of
// the current message. If the writer is just copying from that message, the
// writer releases it. releaseResponses may be called repeatedly.
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
