package rpcrdma

import "time"

// A watch notices a peer that leaves posted work undone: an RDMA Read not
// answered, a reply not taken. Its timer runs only while there is such work,
// and is set again at most once per period. The connection's lock guards it.
type watch struct {
	timer  *time.Timer
	armed  bool
	posted uint64 // batches of work
	done   uint64
	seen   uint64 // done when the period began
	pulls  pullTimes
}

// pullTimes are when the batches of RDMA Reads were posted that are not done, the
// oldest first: they are done in that order.
type pullTimes struct {
	all   []time.Time
	first int
}

// begin notes a batch. It moves the others only where at least as many have ended
// since: a connection has thousands under way perhaps.
func (p *pullTimes) begin() {
	if p.first > len(p.all)/2 && len(p.all) == cap(p.all) {
		p.all, p.first = p.all[:copy(p.all, p.all[p.first:])], 0
	}
	p.all = append(p.all, time.Now())
}

func (p *pullTimes) end() {
	if p.first++; p.first == len(p.all) {
		p.all, p.first = p.all[:0], 0
	}
}

// oldest returns when the one was posted that is under way longest, if there is any.
func (p *pullTimes) oldest() (since time.Time, ok bool) {
	if len(p.all) == 0 {
		return time.Time{}, false
	}
	return p.all[p.first], true
}

// posting notes a batch of work that is about to be posted.
func (c *conn) posting(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.watch
	w.posted++
	if id == idPull {
		w.pulls.begin()
	}
	if !w.armed && !c.closed {
		w.armed, w.seen = true, w.done
		w.timer.Reset(stallTime)
	}
}

// completed notes the end of a batch of a call's.
func (c *conn) completed(cl *call, id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch.done++
	if id == idReply {
		c.credits.sentLocked(cl.hdr.Credit)
	} else {
		c.watch.pulls.end()
	}
}

// checkProgress is called at the end of a period.
func (c *conn) checkProgress() {
	c.mu.Lock()
	w := &c.watch
	stalled := w.posted != w.done && w.done == w.seen
	w.armed = w.posted != w.done && !stalled && !c.closed
	if w.armed {
		w.seen = w.done
		w.timer.Reset(stallTime)
	}
	c.mu.Unlock()
	if stalled {
		c.abort(errStalled)
	}
}
