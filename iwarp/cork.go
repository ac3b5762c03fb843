package iwarp

import "runtime"

// While the reader hands over what has come with one read, nothing that is posted
// is sent: it leaves together when all is handed over, with one system call
// instead of one for each answer.
//
//	readv ─▶ message ─▶ Receive ─▶ Post ─┐
//	       ─▶ message ─▶ Receive ─▶ Post ─┤ held
//	       ─▶ message ─▶ Receive ─▶ Post ─┴─▶ writev ─▶ readv
//
// That is true of whoever posts, since it cannot be known who is the reader.

// cork holds what is posted back.
func (x *receiver) cork() {
	if x.corked {
		return
	}
	x.corked = true
	q := &x.c.tx
	q.mu.Lock()
	q.corked, q.held, q.quiet = true, 0, true
	q.mu.Unlock()
}

// uncork sends what was held back. Where that is nothing yet, other goroutines have
// been given what came: they go first, so that what they post leaves together.
func (x *receiver) uncork() {
	if !x.corked {
		return
	}
	x.corked = false
	q := &x.c.tx
	q.mu.Lock()
	quiet := q.quiet
	q.mu.Unlock()
	if quiet {
		runtime.Gosched()
	}
	q.uncork(x.c)
}

// uncorkResponses lets what was held back leave if there are responses in it: the
// peer is about to invalidate what they answer from, and would have had them.
func (q *sendQueue) uncorkResponses(c *Conn) {
	q.mu.Lock()
	if q.responses.len() > 0 {
		q.corked, q.held = false, 0
	}
	q.kick(c)
}

// uncork lets what was held back leave.
func (q *sendQueue) uncork(c *Conn) {
	q.mu.Lock()
	q.corked, q.held = false, 0
	q.kick(c)
}
