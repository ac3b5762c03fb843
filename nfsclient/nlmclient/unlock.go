package nlmclient

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// Unlock unlocks a range, and returns when the server has done so. If ctx ends
// first, the error is its cause, and the call continues. A range without locks
// needs no call.
func (c *Client) Unlock(ctx context.Context, handle []byte, o Owner, r locks.Range) error {
	h := c.useHolder(handle, o)
	if h == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		defer c.finishUse(h)
		done <- c.unlockRange(c.ctx, h, r)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Release releases all of an owner's locks on a file.
func (c *Client) Release(ctx context.Context, handle []byte, o Owner) error {
	return c.Unlock(ctx, handle, o, wholeFile)
}

// unlockRange calls UNLOCK until the server has replied.
func (c *Client) unlockRange(ctx context.Context, h *fileOwner, r locks.Range) error {
	for {
		select {
		case h.sem <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		status, err := nlm4.Granted, error(nil)
		if len(c.lockPieces(h, r, false)) > 0 {
			_, cred := c.lastRequest(h)
			status, err = c.callStatus(ctx, nlm4.ProcUnlock, &cred, &nlm4.UnlockArgs{Cookie: c.newCookie(), Lock: c.wireLock(h, r)})
		}
		replied := err == nil && status != nlm4.DeniedGrace || err != nil && isServerReply(err)
		if replied {
			c.mu.Lock()
			h.locks.Unlock(r)
			h.file.unblockLocked()
			c.mu.Unlock()
		}
		<-h.sem // in a grace period, the lock can be reclaimed before the next attempt
		switch {
		case replied && (err != nil || status != nlm4.Granted):
			c.cfg.Log.Warn("the server rejected UNLOCK; the lock may remain on the server", "status", status, "err", err)
			return nil
		case replied:
			return nil
		case err != nil:
			return err
		}
		if err := sleepContext(ctx, c.cfg.times.gracePause); err != nil {
			return err
		}
	}
}

// A Holder is a conflicting lock.
type Holder struct {
	Range     locks.Range
	Exclusive bool
	PID       uint32 // 0: a process on another host
}

// Local returns a lock of this mount that conflicts with the request, if there
// is one. It does not call the server.
func (c *Client) Local(r *Request) (h Holder, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[string(r.Handle)]
	if f == nil {
		return h, false
	}
	var own *locks.Owner
	if w := f.holders[r.Owner]; w != nil {
		own = w.locks
	}
	l, found := f.object.Conflict(own, r.Range, r.Exclusive)
	if found {
		h = Holder{l.Range, l.Exclusive, l.Owner.Tag.(*fileOwner).pid}
	}
	return h, found
}

// Test returns a lock that conflicts with the request, if there is one.
func (c *Client) Test(ctx context.Context, r *Request) (h Holder, found bool, err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return h, false, ErrClosed
	}
	c.requests.Add(1)
	w := c.useHolderLocked(r.Handle, r.Owner)
	c.mu.Unlock()
	if h, found = c.Local(r); found {
		c.finishUse(w)
		return h, true, nil
	}
	cred := cloneCred(&r.Cred)
	args := nlm4.TestArgs{Cookie: c.newCookie(), Exclusive: r.Exclusive, Lock: c.wireLock(w, r.Range)}
	done := make(chan error, 1)
	var res nlm4.TestRes
	go func() {
		defer c.finishUse(w)
		for {
			err := c.lockManager.callUntilReply(c.ctx, nlm4.ProcTest, &cred, args.AppendTo(nil, nlm4.Version), func(r *xdr.Reader) { res.Decode(r, nlm4.Version) })
			if err == nil && res.Status == nlm4.DeniedGrace {
				if err = sleepContext(ctx, c.cfg.times.gracePause); err == nil {
					continue
				}
			}
			done <- err
			return
		}
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		return h, false, context.Cause(ctx)
	}
	switch {
	case err != nil || res.Status == nlm4.Granted:
		return h, false, err
	case res.Status != nlm4.Denied:
		return h, false, statusError(nlm4.ProcTest, res.Status)
	}
	h = Holder{Range: locks.Range{Start: res.Holder.Offset, End: locks.ToEnd}, Exclusive: res.Holder.Exclusive}
	if n := res.Holder.Length; n > 0 && n-1 <= locks.ToEnd-h.Range.Start {
		h.Range.End = h.Range.Start + n - 1
	}
	return h, true, nil
}

func cloneCred(c *rpcmsg.Cred) rpcmsg.Cred {
	d := *c
	d.GIDs = append([]uint32(nil), c.GIDs...)
	return d
}
