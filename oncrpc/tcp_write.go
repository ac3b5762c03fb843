package oncrpc

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// A replyQueue writes a connection's replies in the order in which they are put. If no
// goroutine is writing, the caller of put writes until the queue is empty. Other callers
// leave their reply in the queue and continue. Replies that are put during a write, or
// were held back, are sent together in the next.
//
//	put ──▶ waiting ──take──▶ batch ──▶ vec ──one writev──▶ peer
type replyQueue struct {
	conn *tcpConn

	mu           sync.Mutex
	waiting      []*tcpCall
	waitingBytes int // in waiting
	maxHeld      int // maximum number of held replies
	writing      bool

	// used by the writing goroutine
	batch         []*tcpCall
	vec           net.Buffers
	rest          net.Buffers // the unwritten part of vec
	deadlineSetAt time.Time   // when the write deadline was set

	mapped mappedWriter
}

// put takes ownership of cl and writes its reply. With hold it may leave that to the next
// put or flush, which must follow soon.
func (q *replyQueue) put(cl *tcpCall, hold bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, cl)
	q.waitingBytes += cl.reply.Len()
	if cl.reverse == nil {
		q.conn.unqueued.Add(-1)
	}
	switch {
	case !hold:
		q.flushLocked()
	case len(q.waiting) >= q.maxHeld || q.waitingBytes >= maxHeldBytes:
		q.maxHeld *= 2
		q.writeAllLocked()
	}
}

// hasHeldReplies reports whether replies were held back, and no goroutine writes them.
func (q *replyQueue) hasHeldReplies() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0 && !q.writing
}

// flush writes the replies that were held back.
func (q *replyQueue) flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flushLocked()
}

func (q *replyQueue) flushLocked() {
	q.maxHeld = initialHeldReplies
	q.writeAllLocked()
}

// writeAllLocked writes until the queue is empty, unless another goroutine does. It
// unlocks the queue during writes.
func (q *replyQueue) writeAllLocked() {
	if q.writing {
		return
	}
	q.writing = true
	for len(q.waiting) > 0 {
		q.fillBatchLocked()
		q.mu.Unlock()
		q.sendBatch()
		q.mu.Lock()
	}
	q.writing = false
}

// fillBatchLocked moves the replies for the next write to the batch.
func (q *replyQueue) fillBatchLocked() {
	n, size := 0, 0
	for n < len(q.waiting) && (n == 0 || size+q.waiting[n].reply.Len() <= batchSize) {
		size += q.waiting[n].reply.Len()
		n++
	}
	q.waitingBytes -= size
	q.batch = append(q.batch[:0], q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
}

// sendBatch writes the batch and finishes its calls. If the peer is gone or does not
// accept the replies in time, it aborts the connection. Replies put after that are
// discarded.
func (q *replyQueue) sendBatch() {
	if q.conn.ctx.Err() == nil {
		if err := q.writeBatch(); err != nil {
			q.conn.logEnd(err)
			q.conn.abort(err)
		}
	}
	for i, cl := range q.batch {
		q.batch[i] = nil
		q.conn.finishCall(cl)
	}
}

func (q *replyQueue) writeBatch() error {
	q.fillVec()
	defer func() { clear(q.vec) }() // the bytes belong to the calls
	if q.hasMappedItems() {
		q.conn.lending.Store(true)
		defer q.conn.lending.Store(false)
		if err := q.conn.ctx.Err(); err != nil { // abort may have seen no lending
			return err
		}
	}
	if now := time.Now(); now.Sub(q.deadlineSetAt) > armTime {
		q.setDeadline(now)
	}
	q.rest = q.vec
	q.conn.writes.noteStart()
	defer q.conn.writes.noteEnd()
	err := q.writeRest()
	for errors.Is(err, syscall.EFAULT) {
		if err = q.copyVanished(); err == nil {
			err = q.writeRest()
		}
	}
	return err
}

func (q *replyQueue) setDeadline(now time.Time) {
	_ = q.conn.stream.SetWriteDeadline(now.Add(writeTimeout)) // fails only if writing fails
	q.deadlineSetAt = now
}

// writeRest writes the batch's unwritten bytes.
func (q *replyQueue) writeRest() error {
	if t, ok := q.conn.stream.(*net.TCPConn); ok && q.hasMappedItems() {
		return q.mapped.writeAll(q.conn, t, &q.rest)
	}
	_, err := writeBuffers(q.conn.stream, &q.rest)
	return err
}

// fillVec sets vec to the batch's records.
func (q *replyQueue) fillVec() {
	q.vec = q.vec[:0]
	for _, cl := range q.batch {
		q.vec = cl.appendRecord(q.vec)
	}
}

// forgetDeadline makes the next write set the deadline again, because the connection may
// have lost it. No reply may be waiting.
func (q *replyQueue) forgetDeadline() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.deadlineSetAt = time.Time{}
}
