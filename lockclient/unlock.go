package lockclient

import (
	"context"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// Unlock unlocks a range, and returns when the server has done so. If ctx ends
// first, the error is the cause, and the call goes on. A range without locks
// takes no call.
func (c *Client) Unlock(ctx context.Context, handle []byte, o Owner, r locks.Range) error {
	h := c.use(handle, o)
	if h == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		defer c.leave(h)
		done <- c.unlock(c.life, h, r)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Release unlocks everything that an owner has locked of a file.
func (c *Client) Release(ctx context.Context, handle []byte, o Owner) error {
	return c.Unlock(ctx, handle, o, whole)
}

// unlock repeats the call until the server has answered.
func (c *Client) unlock(ctx context.Context, h *holder, r locks.Range) error {
	for {
		select {
		case h.turn <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		status, err := nlm4.Granted, error(nil)
		if len(c.pieces(h, r, false)) > 0 {
			_, cred := c.last(h)
			status, err = c.call(ctx, nlm4.ProcUnlock, &cred, &nlm4.UnlockArgs{Cookie: c.newCookie(), Lock: c.lock(h, r)})
		}
		over := err == nil && status != nlm4.DeniedGrace || err != nil && answered(err)
		if over {
			c.mu.Lock()
			h.locks.Unlock(r)
			h.file.advanceLocked()
			c.mu.Unlock()
		}
		<-h.turn // in a grace period, the lock can be claimed meanwhile
		switch {
		case over && (err != nil || status != nlm4.Granted):
			c.cfg.Log.Warn("the server did not unlock: it may keep the lock", "status", status, "err", err)
			return nil
		case over:
			return nil
		case err != nil:
			return err
		}
		if err := sleep(ctx, c.cfg.times.grace); err != nil {
			return err
		}
	}
}

// A Holder is a lock in the way.
type Holder struct {
	Range     locks.Range
	Exclusive bool
	PID       uint32 // 0: a process of another host
}

// Local returns a lock of this mount that keeps an owner from locking a range, if
// any does. It makes no call.
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
		h = Holder{l.Range, l.Exclusive, l.Owner.Tag.(*holder).pid}
	}
	return h, found
}

// Test returns a lock that keeps an owner from locking a range, if any does.
func (c *Client) Test(ctx context.Context, r *Request) (h Holder, found bool, err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return h, false, ErrClosed
	}
	c.requests.Add(1)
	w := c.enterLocked(r.Handle, r.Owner)
	c.mu.Unlock()
	if h, found = c.Local(r); found {
		c.leave(w)
		return h, true, nil
	}
	cred := cloneCred(&r.Cred)
	args := nlm4.TestArgs{Cookie: c.newCookie(), Exclusive: r.Exclusive, Lock: c.lock(w, r.Range)}
	done := make(chan error, 1)
	var res nlm4.TestRes
	go func() {
		defer c.leave(w)
		for {
			err := c.line.call(c.life, nlm4.ProcTest, &cred, args.AppendTo(nil, nlm4.Version), func(r *xdr.Reader) { res.Decode(r, nlm4.Version) })
			if err == nil && res.Status == nlm4.DeniedGrace {
				if err = sleep(ctx, c.cfg.times.grace); err == nil {
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
		return h, false, refused(nlm4.ProcTest, res.Status)
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
