package iwarp

import "github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"

// stopPosting rejects further posts.
func (q *sendQueue) stopPosting() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// sendTerminate drops the unsent data and queues a Terminate and a FIN instead.
// It does not wait, and reports whether they will be sent. They are not sent
// after a failed write, and a responder that has not received a valid FPDU yet
// sends no Terminate for an MPA error.
func (q *sendQueue) sendTerminate(c *Conn, f *Fault) bool {
	q.mu.Lock()
	if q.broken || q.gated && f.Terminate.Cause.Layer == rdmap.LayerLLP {
		q.mu.Unlock()
		return false
	}
	q.releaseResponses()
	q.terminate = &f.Terminate
	q.startWriterUnlock(c)
	return true
}

// waitForWriter waits until there is no writer.
func (q *sendQueue) waitForWriter() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing {
		q.changed.Wait()
	}
}

// drainAndStop waits until every work request has completed, and then stops
// sending. It returns false if sending had already stopped.
func (q *sendQueue) drainAndStop() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.broken && (q.writing || q.head < q.tail) {
		q.changed.Wait()
	}
	first := !q.broken
	q.stopLocked() // the FIN that follows would truncate a response
	return first
}

// writeError returns the error if a write has failed.
func (q *sendQueue) writeError() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// flushRequests completes all remaining work requests with an error. The reader calls it when there
// is no writer, so that nothing else delivers completions.
func (q *sendQueue) flushRequests(cause error) {
	q.mu.Lock()
	q.closed = true
	q.watch.stopLocked()
	q.stopLocked()
	for q.head < q.tail {
		q.popLocked(cause)
	}
	q.written, q.next = q.head, q.head
	q.changed.Broadcast()
	q.mu.Unlock()
	q.deliverCompletions(false)
}

// stopLocked stops sending. The caller holds the queue's lock, and no other
// goroutine is building FPDUs. The responses are released immediately, not by
// flushRequests: the reader, which calls flushRequests last, may be waiting in
// Deregister for the responses' memory.
func (q *sendQueue) stopLocked() {
	q.broken = true
	q.releaseResponses()
}

// releaseResponses drops the unsent responses and the rest of the current
// message. If the writer is copying from that message, the writer releases it.
// releaseResponses may be called repeatedly.
func (q *sendQueue) releaseResponses() {
	if q.overtaken = q.copying; !q.copying {
		q.cur.releaseRest()
	}
	for q.responses.len() > 0 {
		if r := q.responses.pop(); r.region != nil {
			r.region.unpin()
		}
	}
}
