package iwarp

import (
	"math"
	"runtime"
)

// While the reader delivers the messages from one read, posted requests are
// held back. They are sent together after firstCorked messages, after twice as
// many more, and so on, and after the last one, with one system call instead of
// one per reply.
//
//	readv ─▶ message ─▶ Receive ─▶ Post ─┐
//	       ─▶ message ─▶ Receive ─▶ Post ─┤ held
//	       ─▶ message ─▶ Receive ─▶ Post ─┴─▶ writev ─▶ message … readv
//
// The peer's RDMA Reads and atomic operations, and the responses to local ones,
// count as messages.
//
// This applies to every Post, which cannot know whether its caller is the
// reader.

// firstCorked is the number of messages after which held requests are first
// sent. The peer processes these replies while the reader delivers the next
// messages. If all replies were in one write, both ends would wait for each
// other in turn. Once the peer is busy, the next batches are twice as large,
// with fewer writes. On a single processor both ends wait for each other anyway
// if the peer is on this host.
var firstCorked = func() int {
	if runtime.NumCPU() == 1 {
		return math.MaxInt
	}
	return 6
}()

// corkQueue starts holding posted requests.
func (x *receiver) corkQueue() {
	if x.corked++; x.corked > 1 {
		return
	}
	q := &x.c.tx
	q.mu.Lock()
	q.corked, q.heldBytes, q.noPosts = true, 0, true
	q.mu.Unlock()
}

// uncorkQueue sends the held requests. If nothing has been posted yet, other
// goroutines are processing the messages; it yields to them first, so that
// their requests are sent together. A worker does not yield for a single
// message: other connections are ready, and its reply has no others to be
// batched with.
func (x *receiver) uncorkQueue() {
	several := x.corked > 1
	if x.corked == 0 {
		return
	}
	x.corked = 0
	q := &x.c.tx
	q.mu.Lock()
	quiet := q.noPosts
	q.mu.Unlock()
	if quiet && (several || x.worker == nil) {
		runtime.Gosched()
	}
	q.uncork(x.c)
}

// uncorkSome sends the held requests during a read, if corkLimit messages were
// delivered.
func (x *receiver) uncorkSome() {
	if x.corked >= x.corkLimit {
		x.uncorkQueue()
		x.corkLimit *= 2
	}
}

// uncorkResponses sends the held requests if responses are queued, because the
// peer is about to invalidate their memory. Without the cork, they would
// already have been sent.
func (q *sendQueue) uncorkResponses(c *Conn) {
	q.mu.Lock()
	if q.responses.len() > 0 {
		q.corked, q.heldBytes = false, 0
	}
	q.startWriterUnlock(c)
}

// uncork sends the held requests.
func (q *sendQueue) uncork(c *Conn) {
	q.mu.Lock()
	q.corked, q.heldBytes = false, 0
	q.startWriterUnlock(c)
}
