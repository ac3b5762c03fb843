package lockclient

import (
	"context"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A Request is a lock that an owner wants to have.
type Request struct {
	Handle    []byte // of the file
	Owner     Owner
	PID       uint32 // of the process, for those that ask who holds a lock
	Cred      rpcmsg.Cred
	Range     locks.Range
	Exclusive bool
	Wait      bool // while another holds a lock in the way

	// Interrupt ends the request with context.Canceled when the channel is
	// closed; nil: nothing does but the end of the context.
	Interrupt <-chan struct{}
}

// A waiter is a request under way.
type waiter struct {
	Request
	h      *holder
	free   chan struct{} // closed when no lock or waiter of this mount is in the way
	gone   chan struct{} // closed when nobody wants the result any more
	awake  chan struct{} // the server has called GRANTED: ask again now
	result chan error    // of Lock

	// Guarded by the lock of the Client.
	ready bool // free is closed
	ended bool // result has an element, or gone is closed
	asked bool // the server may let the request wait
}

// endLocked ends the wait of Lock.
func (w *waiter) endLocked(err error) {
	if !w.ended {
		w.ended = true
		w.result <- err
		if err != nil {
			close(w.gone)
		}
	}
}

// Lock locks a range, in place of the owner's earlier locks of the range. If ctx
// ends first, the error is the cause, and the owner has its earlier locks. Errno
// describes the other errors. r.Handle and r.Cred are copied.
func (c *Client) Lock(ctx context.Context, r *Request) error {
	w, err := c.ask(r)
	if err != nil {
		return err
	}
	go c.pursue(w)
	select {
	case err := <-w.result:
		return err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-r.Interrupt:
		err = context.Canceled
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w.endLocked(err) // unless the result came first
	return <-w.result
}

// ask enters a request into the table. The request ends with forget.
func (c *Client) ask(r *Request) (*waiter, error) {
	w := &waiter{
		Request: *r, free: make(chan struct{}), gone: make(chan struct{}), awake: make(chan struct{}, 1), result: make(chan error, 1),
	}
	w.Cred.GIDs = slices.Clone(r.Cred.GIDs)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	w.h = c.enterLocked(r.Handle, r.Owner)
	w.h.pid, w.h.cred = r.PID, w.Cred
	f := w.h.file
	_, held := f.object.Conflict(w.h.locks, r.Range, r.Exclusive)
	switch {
	case held && !r.Wait:
		c.leaveLocked(w.h)
		return nil, ErrDenied
	case r.Wait && c.deadlockLocked(w):
		c.leaveLocked(w.h)
		return nil, ErrDeadlock
	}
	c.requests.Add(1)
	if r.Wait {
		f.queue = append(f.queue, w)
		w.h.id.waits[w] = true
		f.advanceLocked()
	} else {
		close(w.free)
	}
	return w, nil
}

// advanceLocked lets the waiters go on that nothing of this mount blocks.
func (f *file) advanceLocked() {
	for i, w := range f.queue {
		if w.ready || f.blockedLocked(w, f.queue[:i]) {
			continue
		}
		w.ready = true
		close(w.free)
	}
}

// blockedLocked reports whether w must wait for a lock, or for requests that came
// before. An owner of locks waits for locks only, because those requests may wait
// for that owner.
func (f *file) blockedLocked(w *waiter, before []*waiter) bool {
	if _, held := f.object.Conflict(w.h.locks, w.Range, w.Exclusive); held {
		return true
	}
	return !w.h.id.locksLocked() && slices.ContainsFunc(before, func(v *waiter) bool { return v.blocks(w) })
}

// blocks reports whether v must wait for w, which has asked before.
func (w *waiter) blocks(v *waiter) bool {
	return v.h != w.h && (v.Exclusive || w.Exclusive) && v.Range.Start <= w.Range.End && w.Range.Start <= v.Range.End
}

// deadlockLocked reports whether the owner of w would wait for itself, through
// locks and waiters of this mount. Only an owner for which another can wait is
// part of a circle.
func (c *Client) deadlockLocked(w *waiter) bool {
	if w.Owner.Flock { // flock(2) knows no deadlock
		return false
	}
	if len(w.h.id.waits) == 0 && !w.h.id.locksLocked() {
		return false
	}
	seen := make(map[*waiter]bool)
	var leads func(v *waiter) bool
	leads = func(v *waiter) bool {
		if seen[v] {
			return false
		}
		seen[v] = true
		f := v.h.file
		for _, h := range f.holders {
			if h == v.h || !h.inWayLocked(v) {
				continue
			}
			if h.owner == w.Owner {
				return true
			}
			for u := range h.id.waits {
				if leads(u) {
					return true
				}
			}
		}
		return false
	}
	for _, h := range w.h.file.holders {
		if h == w.h || !h.inWayLocked(w) {
			continue
		}
		for u := range h.id.waits {
			if leads(u) {
				return true
			}
		}
	}
	return false
}

// inWayLocked reports whether a lock of h blocks w.
func (h *holder) inWayLocked(w *waiter) bool {
	return slices.ContainsFunc(h.lockedLocked(w.Range), func(p piece) bool { return w.Exclusive || p.kind == locks.Exclusive })
}

// pursue brings a request to its end.
func (c *Client) pursue(w *waiter) {
	defer c.forget(w)
	select {
	case <-w.free:
	case <-w.gone:
		return
	}
	t := c.cfg.times
	limit := t.alone
	if c.callback != nil {
		limit = t.last
	}
	for pause := t.first; ; pause = min(2*pause, limit) {
		select {
		case w.h.turn <- struct{}{}:
		case <-w.gone:
			c.withdraw(w)
			return
		}
		status, err := c.request(w)
		if err == nil && status == nlm4.Granted {
			if !c.got(w) {
				c.restore(w.h, w.Range)
			}
			<-w.h.turn
			return
		}
		<-w.h.turn
		wait := pause
		switch {
		case err != nil:
			if !answered(err) {
				c.doubt(w.h)
			}
			c.finish(w, err)
			return
		case status == nlm4.DeniedGrace:
			wait = t.grace
		case status == nlm4.Blocked, status == nlm4.Denied && w.Wait:
		default:
			c.finish(w, refused(nlm4.ProcLock, status))
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-w.awake:
			pause = t.first / 2
		case <-w.gone:
			timer.Stop()
			c.withdraw(w)
			return
		}
		timer.Stop()
	}
}

// request calls LOCK. The caller has the turn.
func (c *Client) request(w *waiter) (nlm4.Status, error) {
	c.left.add(w.h, &w.Cred)
	block := w.Wait && c.callback != nil
	c.mu.Lock()
	w.asked = w.asked || block
	c.mu.Unlock()
	return c.call(c.life, nlm4.ProcLock, &w.Cred, &nlm4.LockArgs{
		Cookie: c.newCookie(), Block: block, Exclusive: w.Exclusive, Lock: c.lock(w.h, w.Range), State: c.left.state(),
	})
}

// got records a lock that the server has given, unless nobody wants it any more.
func (c *Client) got(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.ended {
		return false
	}
	c.setLocked(w.h, w.Range, w.Exclusive)
	for v := range w.h.id.waits { // of other threads, in any file
		v.h.file.advanceLocked()
	}
	w.endLocked(nil)
	return true
}

func (c *Client) finish(w *waiter, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.endLocked(err)
}

// forget takes a request out of the table.
func (c *Client) forget(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := w.h.file
	if i := slices.Index(f.queue, w); i >= 0 {
		f.queue = slices.Delete(f.queue, i, i+1)
		delete(w.h.id.waits, w)
	}
	f.advanceLocked() // also for a lock that is now shared
	c.leaveLocked(w.h)
	c.requests.Done()
}

// withdraw ends the wait of a request at the server. The lock may have been given
// meanwhile.
func (c *Client) withdraw(w *waiter) {
	c.mu.Lock()
	asked := w.asked
	c.mu.Unlock()
	if !asked {
		return
	}
	select {
	case w.h.turn <- struct{}{}:
		defer func() { <-w.h.turn }()
	case <-c.life.Done():
		c.doubt(w.h)
		return
	}
	args := &nlm4.CancelArgs{Cookie: c.newCookie(), Block: true, Exclusive: w.Exclusive, Lock: c.lock(w.h, w.Range)}
	if _, err := c.call(c.life, nlm4.ProcCancel, &w.Cred, args); err != nil {
		c.cfg.Log.Debug("a lock may still be waited for", "err", err)
	}
	c.restore(w.h, w.Range)
}

// restore makes the server's locks of h within r those of the table. The caller
// has the turn. A server in its grace period has restarted, and has no locks but
// those of the table.
func (c *Client) restore(h *holder, r locks.Range) {
	for _, p := range c.pieces(h, r, true) {
		var err error
		if p.kind == locks.None {
			_, cred := c.last(h)
			_, err = c.call(c.life, nlm4.ProcUnlock, &cred, &nlm4.UnlockArgs{Cookie: c.newCookie(), Lock: c.lock(h, p.Range)})
		} else {
			_, err = c.claim(h, p, false)
		}
		if err != nil {
			c.doubt(h)
			c.cfg.Log.Warn("a lock that nobody wants any more may remain at the server", "err", err)
		}
	}
}

// claim calls LOCK for a lock that the table has.
func (c *Client) claim(h *holder, p piece, reclaim bool) (nlm4.Status, error) {
	_, cred := c.last(h)
	return c.call(c.life, nlm4.ProcLock, &cred, &nlm4.LockArgs{
		Cookie: c.newCookie(), Exclusive: p.kind == locks.Exclusive, Lock: c.lock(h, p.Range), Reclaim: reclaim, State: c.left.state(),
	})
}
