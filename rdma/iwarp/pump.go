package iwarp

import (
	"time"
)

// maxTurns is the number of batches that a posting or reading goroutine writes,
// possibly on behalf of others, before a separate goroutine takes over.
const maxTurns = 4

// startWriterUnlock, with the queue locked, makes the caller the writer if there is none,
// and unlocks the queue. It does not wait for the socket.
func (q *sendQueue) startWriterUnlock(c *Conn) {
	if q.writing || q.broken || q.corked && q.heldBytes < maxHeld {
		q.mu.Unlock()
		return
	}
	q.writing = true
	q.mu.Unlock()
	c.writeBatches(false)
}

// writeBatches writes batches until nothing more may be sent. Unless wait is set, it leaves the
// rest to a new goroutine after maxTurns batches, or if the socket buffer is full.
func (c *Conn) writeBatches(wait bool) {
	q := &c.tx
	for turn := 0; ; turn++ {
		if q.batch == nil {
			q.batch = batches.Get().(*batch)
		}
		b := q.batch
		if b.isEmpty() && !q.buildBatch(c, b) {
			return
		}
		if !wait && turn == maxTurns {
			go q.writeAndWait()
			return
		}
		switch err := c.writeBatch(b, wait); err {
		case nil:
			q.finishBatch(c, b)
		case errWouldBlock:
			go q.writeAndWait()
			return
		default:
			q.recordWriteFailure(c, err)
			return
		}
	}
}

// writeBatch writes the rest of b.
func (c *Conn) writeBatch(b *batch, wait bool) error {
	q := &c.tx
	lent := len(b.mapped) > 0
	if lent {
		c.sock.mappings.beginSend()
		defer c.sock.mappings.endSend()
	}
	if l := c.sock.tcp; l != nil {
		l.wr.mayFault = lent
	}
	for !b.isEmpty() {
		n, err := c.sock.writev(b.vec[b.writtenElems:], wait)
		b.markWritten(n)
		if b.requests {
			q.sentBytes.Add(uint64(n))
		}
		switch {
		case err == nil:
		case err == errCrowded && !wait:
			return errWouldBlock
		case err == errCrowded && q.enterDiskWait(): // for the next attempt
			q.leaveDiskWait()
		case err == errWouldBlock || !q.replaceVanished(b, err):
			return err
		}
	}
	return nil
}

// buildBatch fills b with FPDUs. If nothing may be sent, it ends the caller's turn as writer and
// returns false.
func (q *sendQueue) buildBatch(c *Conn, b *batch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cur.readyUpTo = 0 // much time may have passed
	for !q.broken && !b.isFull(q.perFPDU) && !b.endsStream && (q.cur.active || q.nextMessage(c, b)) {
		c.appendFPDU(b, &q.cur)
		b.requests = b.requests || q.cur.queue != nil
		switch {
		case q.cur.offset == q.cur.length:
			q.endMessage(c, b)
		case q.overtaken:
			q.cur.releaseRest()
		}
		q.overtaken = false
	}
	if r := q.cur.region; r != nil {
		r.repin() // b contains part of the response, and may outlive the rest
		b.regions = append(b.regions, r)
	}
	b.nextRequest = q.next
	if b.isEmpty() {
		q.endWriterTurn()
		return false
	}
	return true
}

// endWriterTurn, with the queue locked, ends the writer's turn.
func (q *sendQueue) endWriterTurn() {
	q.batch.reset()
	batches.Put(q.batch)
	q.batch = nil
	q.writing = false
	q.changed.Broadcast()
}

// finishBatch records that the socket has accepted b, and completes its work
// requests.
func (q *sendQueue) finishBatch(c *Conn, b *batch) {
	if b.endsStream {
		c.sock.closeWrite() // R5040-6.2.1-4: an orderly close, so that the Terminate arrives
	}
	q.mu.Lock()
	for ; q.written < b.nextRequest; q.written++ {
		if w := q.requestAt(q.written); !w.needsResponse() {
			w.complete = true
		}
	}
	if b.endsStream {
		q.stopLocked()
	}
	b.reset()
	q.finishLocked()
	due := q.completions.len() > 0
	q.mu.Unlock()
	if due {
		q.deliverCompletions(false)
	}
}

// recordWriteFailure stops sending after a failed write. The reader has a moment to receive the
// peer's reason, such as a Terminate, before the connection is closed.
func (q *sendQueue) recordWriteFailure(c *Conn, err error) {
	q.mu.Lock()
	q.err = err
	q.stopLocked()
	q.endWriterTurn()
	q.mu.Unlock()
	c.sock.expire(time.Now().Add(reasonTimeout))
}
