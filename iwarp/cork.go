package iwarp

import (
	"math"
	"runtime"
)

// While the reader hands over the messages of one read, posted requests are
// held back. They leave together after firstCorked messages, after twice as many
// more, and so on, and after the last one, with one system call instead of one
// for each answer.
//
//	readv ─▶ message ─▶ Receive ─▶ Post ─┐
//	       ─▶ message ─▶ Receive ─▶ Post ─┤ held
//	       ─▶ message ─▶ Receive ─▶ Post ─┴─▶ writev ─▶ message … readv
//
// RDMA Reads and atomic operations of the peer, and the answers to this end's,
// count as messages.
//
// This applies to every caller of Post, since Post cannot know whether its
// caller is the reader.

// firstCorked is for how many messages of a read requests are held back at
// first. The peer works on the answers to these while the reader hands over the
// next messages. With all answers in one write, both ends would wait for each
// other in turn. The peer has enough to do then, so that the next answers leave
// twice as many at a time, with fewer writes. On one processor both ends wait for
// each other anyway if the peer is on this host.
var firstCorked = func() int {
	if runtime.NumCPU() == 1 {
		return math.MaxInt
	}
	return 6
}()

// cork holds back posted requests.
func (x *receiver) cork() {
	if x.corked++; x.corked > 1 {
		return
	}
	q := &x.c.tx
	q.mu.Lock()
	q.corked, q.held, q.quiet = true, 0, true
	q.mu.Unlock()
}

// uncork sends the requests held back. If nothing has been posted yet, other
// goroutines have been given the messages; they run first, so that their
// requests leave together. A worker does not let them run for a single message:
// other connections are ready, and there is nothing to leave with its answer.
func (x *receiver) uncork() {
	several := x.corked > 1
	if x.corked == 0 {
		return
	}
	x.corked = 0
	q := &x.c.tx
	q.mu.Lock()
	quiet := q.quiet
	q.mu.Unlock()
	if quiet && (several || x.worker == nil) {
		runtime.Gosched()
	}
	q.uncork(x.c)
}

// uncorkSome is uncork in the middle of a read, if enough messages were handed
// over.
func (x *receiver) uncorkSome() {
	if x.corked >= x.most {
		x.uncork()
		x.most *= 2
	}
}

// uncorkResponses sends the requests held back if responses are queued: the
// peer is about to invalidate the memory of these responses. Without the cork,
// they would have been sent before.
func (q *sendQueue) uncorkResponses(c *Conn) {
	q.mu.Lock()
	if q.responses.len() > 0 {
		q.corked, q.held = false, 0
	}
	q.kick(c)
}

// uncork sends the requests held back.
func (q *sendQueue) uncork(c *Conn) {
	q.mu.Lock()
	q.corked, q.held = false, 0
	q.kick(c)
}
