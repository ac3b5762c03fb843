package rpcrdma

import (
	"context"
	"slices"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// A call needs a credit to be sent, and holds the credit until its reply
// arrives or the connection ends, even if the caller no longer waits (RFC 8166,
// Section 3.3.1). Calls without a credit are queued. A grant may shrink below
// the number of calls in flight; no call gets a credit then until enough of
// them are answered.

// acquireCredit waits for a credit and returns the call that holds the credit. The call has the XID
// xid, or a new XID if xid is 0 or in use, unless the caller chose it.
func (c *ClientConn) acquireCredit(ctx context.Context, x *oncrpc.Exchange, xid uint32, own bool) (*clientCall, error) {
	c.mu.Lock()
	if err := c.err; err != nil {
		c.mu.Unlock()
		return nil, err
	}
	o := c.newCallLocked()
	o.x, o.xid, o.ownXID = x, xid, own
	if len(c.calls) < c.granted && len(c.waiting) == 0 {
		c.admitLocked(o)
		c.mu.Unlock()
		return o, nil
	}
	c.waiting = append(c.waiting, o)
	c.mu.Unlock()
	select {
	case <-o.wake:
		if o.admitted {
			return o, nil
		}
		o.releaseHold()
		return nil, c.closeCause()
	case <-ctx.Done():
		c.cancelWait(o)
		return nil, context.Cause(ctx)
	}
}

// admitLocked gives a call a credit and an XID.
func (c *ClientConn) admitLocked(o *clientCall) {
	for !o.ownXID && (o.xid == 0 || c.calls[o.xid] != nil) {
		o.xid = c.xids.Next()
	}
	c.calls[o.xid] = o
	o.admitted = true
}

// removeLocked removes a call, and gives the free credits to the calls that
// have waited longest.
func (c *ClientConn) removeLocked(o *clientCall) {
	delete(c.calls, o.xid)
	for len(c.calls) < c.granted && len(c.waiting) > 0 {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.admitLocked(next)
		next.wake <- struct{}{}
	}
}

// checkOverdue returns the number of checks since the oldest unanswered call
// was sent, and counts this check.
func (c *ClientConn) checkOverdue() (longest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.calls {
		if o.sent && !o.abandoned {
			longest = max(longest, c.checks-o.checks)
		}
	}
	c.checks++
	return longest
}

// cancelWait cancels a call that waits for a credit. The credit may have
// arrived in the meantime.
func (c *ClientConn) cancelWait(o *clientCall) {
	c.mu.Lock()
	i := slices.Index(c.waiting, o)
	if i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	c.mu.Unlock()
	if i < 0 {
		<-o.wake
		if o.admitted {
			_ = o.withdrawUnsent(nil)
		}
	}
	o.releaseHold()
}

// newCallLocked returns a call with one holder.
func (c *ClientConn) newCallLocked() *clientCall {
	n := len(c.freeCalls)
	if n == 0 {
		o := &clientCall{c: c, outcomes: make(chan outcome, 1), wake: make(chan struct{}, 1)}
		o.holders.Store(1)
		return o
	}
	o := c.freeCalls[n-1]
	c.freeCalls[n-1] = nil
	c.freeCalls = c.freeCalls[:n-1]
	o.holders.Store(1)
	return o
}

// releaseHold drops one hold on a call. When the last hold is dropped, the call is kept for reuse.
func (o *clientCall) releaseHold() {
	if o.holders.Add(-1) > 0 {
		return
	}
	if o.out != nil {
		o.out.Release()
	}
	o.hdr.Lists.Reset()
	*o = clientCall{c: o.c, hdr: wire.Header{Lists: o.hdr.Lists}, outcomes: o.outcomes, wake: o.wake}
	c := o.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.freeCalls) < c.cfg.Credits {
		c.freeCalls = append(c.freeCalls, o)
	}
}
