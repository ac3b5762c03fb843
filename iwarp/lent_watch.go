package iwarp

import (
	"fmt"
	"os"
	"time"
)

// A lentWatch ends the connection if posted work requests keep pages of files
// for too long: the data are not sent, or RDMA Reads before them are not
// answered. It looks lentLooks times within its limit. The queue's lock guards
// it.
type lentWatch struct {
	limit time.Duration
	timer *time.Timer // nil: no pages were ever lent
	runs  bool        // the timer is running
	stood int         // consecutive looks without progress
	seen  lentMark    // at the last progress
}

// lentLooks is the number of looks in lentTimeout, and lentProgress how many
// bytes must move from one look to the next.
const (
	lentLooks    = 5
	lentProgress = slowestPeer * int(lentTimeout/lentLooks/time.Second)
)

var errLentStalls = fmt.Errorf("iwarp: the peer does not receive data of lent file pages, or answers no RDMA Reads before them: %w",
	os.ErrDeadlineExceeded)

// A lentMark tells how far the oldest work request with pages of files is. Only
// bytes that bring it closer to its end count, so that a peer cannot excuse
// itself by other messages.
type lentMark struct {
	oldest uint64 // its index
	isSent bool   // it waits only for RDMA Reads before it
	got    uint64 // bytes of the answers to RDMA Reads,
	sent   uint64 // and of batches with work requests, unless it is sent
}

// markLocked returns the present mark. Pages must be lent.
func (q *sendQueue) markLocked() lentMark {
	m := lentMark{oldest: q.head, got: q.got}
	for q.at(m.oldest).Reread == nil {
		m.oldest++
	}
	if m.isSent = m.oldest < q.written; !m.isSent {
		m.sent = q.sent.Load()
	}
	return m
}

// past reports whether m is progress since before.
func (m lentMark) past(before lentMark) bool {
	return m.oldest != before.oldest || m.isSent != before.isSent || m.got+m.sent >= before.got+before.sent+uint64(lentProgress)
}

// beginLocked begins the watch, after pages have been lent.
func (w *lentWatch) beginLocked(c *Conn) {
	if w.runs {
		return
	}
	w.runs, w.stood, w.seen = true, 0, c.tx.markLocked()
	if w.timer == nil {
		w.timer = time.AfterFunc(w.limit/lentLooks, c.checkLent)
		return
	}
	w.timer.Reset(w.limit / lentLooks)
}

// stopLocked ends the watch. Nothing may be posted any more.
func (w *lentWatch) stopLocked() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// checkLent ends the connection if the oldest work request with pages of files
// has not come closer to its end for the limit. The time of a disk that holds up
// the data does not count.
func (c *Conn) checkLent() {
	if c.tx.lookLent(c.AwaitsSource()) {
		c.Abort(errLentStalls)
	}
}

func (q *sendQueue) lookLent(excused bool) (stalled bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := &q.watch
	if w.runs = q.lent > 0 && !q.closed; !w.runs {
		return false
	}
	w.stood++
	if now := q.markLocked(); excused || now.past(w.seen) {
		w.stood, w.seen = 0, now
	}
	if w.stood == lentLooks {
		return true
	}
	w.timer.Reset(w.limit / lentLooks)
	return false
}
