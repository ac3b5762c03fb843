package rpcrdma

import "time"

// A watch detects a peer that leaves posted work undone: an RDMA Read not
// answered, a reply not taken. Its timer runs only while such work exists, and
// is reset at most once per period. The connection's lock guards the watch.
type watch struct {
	timer  *time.Timer
	armed  bool
	posted uint64 // batches of work
	done   uint64
	seen   uint64 // done when the period began
	pulls  pullTimes
}

// pullTimes are the posting times of the unfinished batches of RDMA Reads,
// oldest first. The batches finish in that order.
type pullTimes struct {
	all   []time.Time
	first int
}

// begin notes a batch. It moves the other times only if at least as many have
// ended since, because a connection may have thousands under way.
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

// oldest returns when the oldest unfinished batch was posted, if there is any.
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

// completed notes the end of a batch of a call.
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

// checkProgress is called at the end of a period. A period in which a disk holds up the
// data of replies does not count.
func (c *conn) checkProgress() {
	excused := c.awaitsSource()
	c.mu.Lock()
	w := &c.watch
	stalled := w.posted != w.done && w.done == w.seen && !excused
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
