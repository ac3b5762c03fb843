package iwarp

import (
	"time"
)

// maxTurns is the number of batches that a posting or reading goroutine writes,
// perhaps for others, before a separate goroutine takes over.
const maxTurns = 4

// kick, with the queue locked, makes the caller the writer if there is none,
// and unlocks the queue. It does not wait for the socket.
func (q *sendQueue) kick(c *Conn) {
	if q.writing || q.broken || q.corked && q.held < maxHeld {
		q.mu.Unlock()
		return
	}
	q.writing = true
	q.mu.Unlock()
	c.pump(false)
}

// pump writes batches until nothing is left that may be sent. Unless wait is
// set, it leaves the rest to a goroutine after maxTurns batches, or if the
// socket is full.
func (c *Conn) pump(wait bool) {
	q := &c.tx
	for turn := 0; ; turn++ {
		if q.batch == nil {
			q.batch = batches.Get().(*batch)
		}
		b := q.batch
		if b.empty() && !q.build(c, b) {
			return
		}
		if !wait && turn == maxTurns {
			go q.await()
			return
		}
		switch err := c.write(b, wait); err {
		case nil:
			q.wrote(c, b)
		case errWouldBlock:
			go q.await()
			return
		default:
			q.fail(c, err)
			return
		}
	}
}

// write writes the rest of b.
func (c *Conn) write(b *batch, wait bool) error {
	q := &c.tx
	lent := len(b.mapped) > 0
	if lent {
		c.sock.lends.begin()
		defer c.sock.lends.end()
	}
	if l := c.sock.tcp; l != nil {
		l.wr.faults = lent
	}
	for !b.empty() {
		n, err := c.sock.writev(b.vec[b.sent:], wait)
		b.advance(n)
		if b.requests {
			q.sent.Add(uint64(n))
		}
		if err == errWouldBlock || err != nil && !q.vanished(b, err) {
			return err
		}
	}
	return nil
}

// build fills b with FPDUs. If nothing may be sent, it ends the caller's turn
// as writer and returns false.
func (q *sendQueue) build(c *Conn, b *batch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.broken && !b.full(q.perFPDU) && !b.last && (q.cur.active || q.nextMessage(c, b)) {
		c.cut(b, &q.cur)
		b.requests = b.requests || q.cur.queue != nil
		switch {
		case q.cur.offset == q.cur.length:
			q.endMessage(c, b)
		case q.overtaken:
			q.cur.release()
		}
		q.overtaken = false
	}
	if r := q.cur.region; r != nil {
		r.repin() // b contains a part of the response, and may outlive the rest
		b.regions = append(b.regions, r)
	}
	b.upTo = q.next
	if b.empty() {
		q.endTurn()
		return false
	}
	return true
}

// endTurn, with the queue locked, ends the turn of the writer.
func (q *sendQueue) endTurn() {
	q.batch.reset()
	batches.Put(q.batch)
	q.batch = nil
	q.writing = false
	q.idle.Broadcast()
}

// wrote notes that the socket has taken b.
func (q *sendQueue) wrote(c *Conn, b *batch) {
	if b.last {
		c.sock.closeWrite() // R5040-6.2.1-4: an orderly close, so that the Terminate arrives
	}
	q.mu.Lock()
	for ; q.written < b.upTo; q.written++ {
		if w := q.at(q.written); !w.answered() {
			w.complete = true
		}
	}
	if b.last {
		q.stopLocked()
	}
	b.reset()
	q.finishLocked()
	due := q.done.len() > 0
	q.mu.Unlock()
	if due {
		q.deliver(false)
	}
}

// fail ends the sending after a failed write. The reader has a moment to find
// the peer's reason, such as a Terminate, before the connection ends.
func (q *sendQueue) fail(c *Conn, err error) {
	q.mu.Lock()
	q.err = err
	q.stopLocked()
	q.endTurn()
	q.mu.Unlock()
	c.sock.expire(time.Now().Add(reasonTimeout))
}
