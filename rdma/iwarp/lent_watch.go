package iwarp

import (
	"fmt"
	"os"
	"time"
)

// A lentWatch aborts the connection if posted work requests reference file
// pages for too long: the data is not sent, or earlier RDMA Reads are not
// answered. It checks lentChecks times within its limit. The queue's lock
// guards it.
type lentWatch struct {
	limit      time.Duration
	timer      *time.Timer // nil: no file pages were ever posted
	running    bool        // the timer is running
	idleChecks int         // consecutive checks without progress
	lastMark   lentMark    // at the last progress
}

// lentChecks is the number of checks in lentTimeout, and lentProgress the
// number of bytes that must move between checks.
const (
	lentChecks   = 5
	lentProgress = slowestPeer * int(lentTimeout/lentChecks/time.Second)
)

var errLentStalls = fmt.Errorf("iwarp: the peer does not drain a zero-copy send, or does not answer the RDMA Reads queued before it: %w",
	os.ErrDeadlineExceeded)

// A lentMark is the progress of the oldest work request with file pages. Only
// bytes that bring it closer to completion count, so that other messages do not
// excuse a peer.
type lentMark struct {
	oldest uint64 // its index
	isSent bool   // it waits only for earlier RDMA Reads
	got    uint64 // bytes of RDMA Read Responses,
	sent   uint64 // and bytes of batches with work requests, unless isSent
}

// lentMarkLocked returns the current mark. At least one request must have file
// pages.
func (q *sendQueue) lentMarkLocked() lentMark {
	m := lentMark{oldest: q.head, got: q.readRespBytes}
	for q.requestAt(m.oldest).Reread == nil {
		m.oldest++
	}
	if m.isSent = m.oldest < q.written; !m.isSent {
		m.sent = q.sentBytes.Load()
	}
	return m
}

// isProgressSince reports whether m shows progress since before.
func (m lentMark) isProgressSince(before lentMark) bool {
	return m.oldest != before.oldest || m.isSent != before.isSent || m.got+m.sent >= before.got+before.sent+uint64(lentProgress)
}

// beginLocked starts the watch, after file pages have been posted.
func (w *lentWatch) beginLocked(c *Conn) {
	if w.running {
		return
	}
	w.running, w.idleChecks, w.lastMark = true, 0, c.tx.lentMarkLocked()
	if w.timer == nil {
		w.timer = time.AfterFunc(w.limit/lentChecks, c.checkLent)
		return
	}
	w.timer.Reset(w.limit / lentChecks)
}

// stopLocked stops the watch. No further posts may follow.
func (w *lentWatch) stopLocked() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// checkLent aborts the connection if the oldest work request with file pages
// has made no progress for the limit. Time spent waiting for a disk does not
// count.
func (c *Conn) checkLent() {
	if c.tx.updateLentWatch(c.AwaitsSource()) {
		c.Abort(errLentStalls)
	}
}

func (q *sendQueue) updateLentWatch(excused bool) (stalled bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := &q.watch
	if w.running = q.lentRequests > 0 && !q.closed; !w.running {
		return false
	}
	w.idleChecks++
	if now := q.lentMarkLocked(); excused || now.isProgressSince(w.lastMark) {
		w.idleChecks, w.lastMark = 0, now
	}
	if w.idleChecks == lentChecks {
		return true
	}
	w.timer.Reset(w.limit / lentChecks)
	return false
}
