package oncrpc

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// A replyQueue writes the replies of a connection in the order in which they
// are put. If no goroutine is writing, the caller of put writes until the queue
// is empty. Other callers leave their reply in the queue and continue. Replies
// that are put during a write, or were held back, leave together in the next.
//
//	put ──▶ waiting ──take──▶ batch ──▶ vec ──one writev──▶ peer
type replyQueue struct {
	conn *tcpConn

	mu      sync.Mutex
	waiting []*tcpCall
	size    int // bytes of waiting
	most    int // as many replies wait at most
	writing bool

	// used by the writing goroutine
	batch []*tcpCall
	vec   net.Buffers
	rest  net.Buffers // the unwritten part of vec
	armed time.Time   // when the write deadline was set
}

// put takes ownership of cl and has its reply written. With hold it may leave
// that to the next put or flush, which must come soon.
func (q *replyQueue) put(cl *tcpCall, hold bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, cl)
	q.size += cl.reply.Len()
	if cl.reverse == nil {
		q.conn.open.Add(-1)
	}
	switch {
	case !hold:
		q.flushLocked()
	case len(q.waiting) >= q.most || q.size >= holdSize:
		q.most *= 2
		q.writeAllLocked()
	}
}

// holds reports whether replies were held back, and nobody writes them.
func (q *replyQueue) holds() bool {
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
	q.most = firstHeld
	q.writeAllLocked()
}

// writeAllLocked writes until the queue is empty, unless another goroutine does. It
// unlocks the queue meanwhile.
func (q *replyQueue) writeAllLocked() {
	if q.writing {
		return
	}
	q.writing = true
	for len(q.waiting) > 0 {
		q.takeLocked()
		q.mu.Unlock()
		q.write()
		q.mu.Lock()
	}
	q.writing = false
}

// takeLocked moves the replies of the next write to the batch.
func (q *replyQueue) takeLocked() {
	n, size := 0, 0
	for n < len(q.waiting) && (n == 0 || size+q.waiting[n].reply.Len() <= batchSize) {
		size += q.waiting[n].reply.Len()
		n++
	}
	q.size -= size
	q.batch = append(q.batch[:0], q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
}

// write writes the batch and ends its calls. If the peer is gone or does not
// take the replies in time, write cuts the connection. Replies put after that
// are discarded.
func (q *replyQueue) write() {
	if q.conn.ctx.Err() == nil {
		if err := q.writeBatch(); err != nil {
			q.conn.logEnd(err)
			q.conn.abort(err)
		}
	}
	for i, cl := range q.batch {
		q.batch[i] = nil
		q.conn.done(cl)
	}
}

func (q *replyQueue) writeBatch() error {
	q.fillVec()
	defer func() { clear(q.vec) }() // the bytes belong to the calls
	if q.lends() {
		q.conn.lending.Store(true)
		defer q.conn.lending.Store(false)
		if err := q.conn.ctx.Err(); err != nil { // abort may have seen no lending
			return err
		}
	}
	line := q.conn.line
	if now := time.Now(); now.Sub(q.armed) > armTime {
		_ = line.SetWriteDeadline(now.Add(writeTimeout)) // fails only if writing fails
		q.armed = now
	}
	q.rest = q.vec
	q.conn.writes.begin()
	defer q.conn.writes.end()
	_, err := writeBuffers(line, &q.rest)
	for errors.Is(err, syscall.EFAULT) {
		if err = q.copyVanished(); err == nil {
			_, err = writeBuffers(line, &q.rest)
		}
	}
	return err
}

// fillVec makes vec the records of the batch.
func (q *replyQueue) fillVec() {
	q.vec = q.vec[:0]
	for _, cl := range q.batch {
		q.vec = cl.appendTo(q.vec)
	}
}

// forgetDeadline says that the connection may have lost its write deadline. No
// reply may be waiting.
func (q *replyQueue) forgetDeadline() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = time.Time{}
}
