package rpcrdma

import "time"

// A stallWatch detects a peer that does not complete posted work: an RDMA Read
// not answered, or a reply not received. Its timer runs only while such work
// exists, and is reset at most once per period. The connection's lock guards
// the watch.
type stallWatch struct {
	timer       *time.Timer
	armed       bool
	posted      uint64 // posted batches
	done        uint64
	doneAtStart uint64 // value of done when the period began
	pulls       pullTimes
}

// pullTimes holds the posting times of unfinished RDMA Read batches, oldest
// first. The batches finish in that order.
type pullTimes struct {
	times []time.Time
	first int
}

// addBatch records a batch. It moves the other times only if at least as many
// have finished since, because a connection may have thousands in flight.
func (p *pullTimes) addBatch() {
	if p.first > len(p.times)/2 && len(p.times) == cap(p.times) {
		p.times, p.first = p.times[:copy(p.times, p.times[p.first:])], 0
	}
	p.times = append(p.times, time.Now())
}

func (p *pullTimes) removeOldest() {
	if p.first++; p.first == len(p.times) {
		p.times, p.first = p.times[:0], 0
	}
}

// oldest returns when the oldest unfinished batch was posted, if there is any.
func (p *pullTimes) oldest() (since time.Time, ok bool) {
	if len(p.times) == 0 {
		return time.Time{}, false
	}
	return p.times[p.first], true
}

// recordBatchPost records a batch that is about to be posted.
func (c *conn) recordBatchPost(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.watch
	w.posted++
	if id == idPull {
		w.pulls.addBatch()
	}
	if !w.armed && !c.closed {
		w.armed, w.doneAtStart = true, w.done
		w.timer.Reset(stallTime)
	}
}

// recordBatchEnd records the completion of a call's batch.
func (c *conn) recordBatchEnd(cl *call, id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch.done++
	if id == idReply {
		c.credits.replySentLocked(cl.hdr.Credit)
	} else {
		c.watch.pulls.removeOldest()
	}
}

// checkProgress is called at the end of a period. A period in which a disk delays reply data does
// not count.
func (c *conn) checkProgress() {
	excused := c.awaitsSource()
	c.mu.Lock()
	w := &c.watch
	stalled := w.posted != w.done && w.done == w.doneAtStart && !excused
	w.armed = w.posted != w.done && !stalled && !c.closed
	if w.armed {
		w.doneAtStart = w.done
		w.timer.Reset(stallTime)
	}
	c.mu.Unlock()
	if stalled {
		c.abort(errStalled)
	}
}
