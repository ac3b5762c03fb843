package nlmclient

import (
	"context"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A Request is an owner's request for a lock.
type Request struct {
	Handle    []byte // file handle
	Owner     Owner
	PID       uint32 // process that others see as the lock's holder
	Cred      rpcmsg.Cred
	Range     locks.Range
	Exclusive bool
	Wait      bool // wait while another owner holds a conflicting lock

	// Interrupt makes the request fail with context.Canceled when the channel
	// is closed; nil means that only the context ends the request.
	Interrupt <-chan struct{}
}

// A lockRequest is the state of a Request in progress.
type lockRequest struct {
	Request
	holder    *fileOwner
	unblocked chan struct{} // closed when no lock or request of this mount conflicts
	abandoned chan struct{} // closed when the caller no longer wants the result
	retryNow  chan struct{} // receives after a GRANTED call: send LOCK again now
	result    chan error    // result for Lock

	// Client.mu guards the following fields.
	ready    bool // unblocked is closed
	ended    bool // result has an element, or abandoned is closed
	mayBlock bool // a LOCK with block was sent, so the server may queue the request
}

// finishLocked passes err to Lock, unless the request is finished.
func (w *lockRequest) finishLocked(err error) {
	if !w.ended {
		w.ended = true
		w.result <- err
		if err != nil {
			close(w.abandoned)
		}
	}
}

// Lock locks a range, and replaces the owner's earlier locks in the range. If
// ctx ends first, the error is its cause, and the owner keeps its earlier
// locks. Errno describes the other errors. r.Handle and r.Cred are copied.
func (c *Client) Lock(ctx context.Context, r *Request) error {
	w, err := c.addRequest(r)
	if err != nil {
		return err
	}
	go c.runRequest(w)
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
	w.finishLocked(err) // unless the result came first
	return <-w.result
}

// addRequest adds a request to the table, or denies it. The caller must call
// removeRequest when it is done.
func (c *Client) addRequest(r *Request) (*lockRequest, error) {
	w := &lockRequest{
		Request: *r, unblocked: make(chan struct{}), abandoned: make(chan struct{}), retryNow: make(chan struct{}, 1), result: make(chan error, 1),
	}
	w.Cred.GIDs = slices.Clone(r.Cred.GIDs)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	w.holder = c.useHolderLocked(r.Handle, r.Owner)
	w.holder.pid, w.holder.cred = r.PID, w.Cred
	f := w.holder.file
	_, held := f.object.Conflict(w.holder.locks, r.Range, r.Exclusive)
	switch {
	case held && !r.Wait:
		c.releaseHolderLocked(w.holder)
		return nil, ErrDenied
	case r.Wait && c.deadlockLocked(w):
		c.releaseHolderLocked(w.holder)
		return nil, ErrDeadlock
	}
	c.requests.Add(1)
	if r.Wait {
		f.queue = append(f.queue, w)
		w.holder.identity.requests[w] = true
		f.unblockLocked()
	} else {
		close(w.unblocked)
	}
	return w, nil
}

// unblockLocked starts the waiting requests that no lock or request of this
// mount blocks.
func (f *lockedFile) unblockLocked() {
	for i, w := range f.queue {
		if w.ready || f.blockedLocked(w, f.queue[:i]) {
			continue
		}
		w.ready = true
		close(w.unblocked)
	}
}

// blockedLocked reports whether w must wait for a lock, or for earlier
// requests. An owner that has locks waits only for locks, because those
// requests may wait for that owner.
func (f *lockedFile) blockedLocked(w *lockRequest, before []*lockRequest) bool {
	if _, held := f.object.Conflict(w.holder.locks, w.Range, w.Exclusive); held {
		return true
	}
	return !w.holder.identity.hasLocksLocked() && slices.ContainsFunc(before, func(v *lockRequest) bool { return v.isBlocking(w) })
}

// isBlocking reports whether v must wait for the earlier request w.
func (w *lockRequest) isBlocking(v *lockRequest) bool {
	return v.holder != w.holder && (v.Exclusive || w.Exclusive) && v.Range.Start <= w.Range.End && w.Range.Start <= v.Range.End
}

// deadlockLocked reports whether w's owner would wait for itself, through this
// mount's locks and requests. Only an owner for which another can wait is part
// of a cycle.
func (c *Client) deadlockLocked(w *lockRequest) bool {
	if w.Owner.Flock { // flock(2) does not detect deadlocks
		return false
	}
	if len(w.holder.identity.requests) == 0 && !w.holder.identity.hasLocksLocked() {
		return false
	}
	seen := make(map[*lockRequest]bool)
	var reachesOwner func(v *lockRequest) bool
	reachesOwner = func(v *lockRequest) bool {
		if seen[v] {
			return false
		}
		seen[v] = true
		f := v.holder.file
		for _, h := range f.holders {
			if h == v.holder || !h.blocksLocked(v) {
				continue
			}
			if h.owner == w.Owner {
				return true
			}
			for u := range h.identity.requests {
				if reachesOwner(u) {
					return true
				}
			}
		}
		return false
	}
	for _, h := range w.holder.file.holders {
		if h == w.holder || !h.blocksLocked(w) {
			continue
		}
		for u := range h.identity.requests {
			if reachesOwner(u) {
				return true
			}
		}
	}
	return false
}

// blocksLocked reports whether one of h's locks blocks w.
func (h *fileOwner) blocksLocked(w *lockRequest) bool {
	return slices.ContainsFunc(h.locksInLocked(w.Range), func(p lockPiece) bool { return w.Exclusive || p.kind == locks.Exclusive })
}

// runRequest sends LOCK calls for a request until it is granted, fails or is
// abandoned.
func (c *Client) runRequest(w *lockRequest) {
	defer c.removeRequest(w)
	select {
	case <-w.unblocked:
	case <-w.abandoned:
		return
	}
	t := c.cfg.times
	limit := t.lastUncalled
	if c.grantedServer != nil {
		limit = t.lastRetry
	}
	for pause := t.firstRetry; ; pause = min(2*pause, limit) {
		select {
		case w.holder.sem <- struct{}{}:
		case <-w.abandoned:
			c.cancelAtServer(w)
			return
		}
		status, err := c.callLock(w)
		if err == nil && status == nlm4.Granted {
			if !c.recordGranted(w) {
				c.restoreAtServer(w.holder, w.Range)
			}
			<-w.holder.sem
			return
		}
		<-w.holder.sem
		wait := pause
		switch {
		case err != nil:
			if !isServerReply(err) {
				c.markUncertain(w.holder)
			}
			c.finishRequest(w, err)
			return
		case status == nlm4.DeniedGrace:
			wait = t.gracePause
		case status == nlm4.Blocked, status == nlm4.Denied && w.Wait:
		default:
			c.finishRequest(w, statusError(nlm4.ProcLock, status))
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-w.retryNow:
			pause = t.firstRetry / 2
		case <-w.abandoned:
			timer.Stop()
			c.cancelAtServer(w)
			return
		}
		timer.Stop()
	}
}

// callLock calls LOCK. The caller must hold w.holder.sem.
func (c *Client) callLock(w *lockRequest) (nlm4.Status, error) {
	c.ownerList.addHolder(w.holder, &w.Cred)
	block := w.Wait && c.grantedServer != nil
	c.mu.Lock()
	w.mayBlock = w.mayBlock || block
	c.mu.Unlock()
	return c.callStatus(c.ctx, nlm4.ProcLock, &w.Cred, &nlm4.LockArgs{
		Cookie: c.newCookie(), Block: block, Exclusive: w.Exclusive, Lock: c.wireLock(w.holder, w.Range), State: c.ownerList.nsmState(),
	})
}

// recordGranted records a granted lock, and returns false if the caller no
// longer wants it.
func (c *Client) recordGranted(w *lockRequest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.ended {
		return false
	}
	c.setLocked(w.holder, w.Range, w.Exclusive)
	for v := range w.holder.identity.requests { // other threads' requests, for any file
		v.holder.file.unblockLocked()
	}
	w.finishLocked(nil)
	return true
}

func (c *Client) finishRequest(w *lockRequest, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.finishLocked(err)
}

// removeRequest removes a request from the table.
func (c *Client) removeRequest(w *lockRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := w.holder.file
	if i := slices.Index(f.queue, w); i >= 0 {
		f.queue = slices.Delete(f.queue, i, i+1)
		delete(w.holder.identity.requests, w)
	}
	f.unblockLocked() // also because a lock may now be shared
	c.releaseHolderLocked(w.holder)
	c.requests.Done()
}

// cancelAtServer cancels a request that may wait on the server. If the lock was
// granted before that, it is released.
func (c *Client) cancelAtServer(w *lockRequest) {
	c.mu.Lock()
	asked := w.mayBlock
	c.mu.Unlock()
	if !asked {
		return
	}
	select {
	case w.holder.sem <- struct{}{}:
		defer func() { <-w.holder.sem }()
	case <-c.ctx.Done():
		c.markUncertain(w.holder)
		return
	}
	args := &nlm4.CancelArgs{Cookie: c.newCookie(), Block: true, Exclusive: w.Exclusive, Lock: c.wireLock(w.holder, w.Range)}
	if _, err := c.callStatus(c.ctx, nlm4.ProcCancel, &w.Cred, args); err != nil {
		c.cfg.Log.Debug("cannot cancel a lock request; it may still wait on the server", "err", err)
	}
	c.restoreAtServer(w.holder, w.Range)
}

// restoreAtServer makes h's locks in r on the server equal to those in the
// table. The caller must hold h.sem. A server in its grace period has
// restarted, and has only the locks in the table.
func (c *Client) restoreAtServer(h *fileOwner, r locks.Range) {
	for _, p := range c.lockPieces(h, r, true) {
		var err error
		if p.kind == locks.None {
			_, cred := c.lastRequest(h)
			_, err = c.callStatus(c.ctx, nlm4.ProcUnlock, &cred, &nlm4.UnlockArgs{Cookie: c.newCookie(), Lock: c.wireLock(h, p.Range)})
		} else {
			_, err = c.callLockAgain(h, p, false)
		}
		if err != nil {
			c.markUncertain(h)
			c.cfg.Log.Warn("cannot release an abandoned lock; it may remain on the server", "err", err)
		}
	}
}

// callLockAgain calls LOCK for a lock in the table.
func (c *Client) callLockAgain(h *fileOwner, p lockPiece, reclaim bool) (nlm4.Status, error) {
	_, cred := c.lastRequest(h)
	return c.callStatus(c.ctx, nlm4.ProcLock, &cred, &nlm4.LockArgs{
		Cookie: c.newCookie(), Exclusive: p.kind == locks.Exclusive, Lock: c.wireLock(h, p.Range), Reclaim: reclaim, State: c.ownerList.nsmState(),
	})
}
