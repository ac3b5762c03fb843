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
}

// posting notes a batch of work that is about to be posted.
func (c *conn) posting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.watch
	w.posted++
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
