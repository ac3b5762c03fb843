package rpcrdma

import (
	"context"
	"slices"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// A call needs a credit to be sent, and holds the credit until its reply
// arrives or the connection ends, even if the caller no longer waits (RFC 8166,
// Section 3.3.1). Calls without a credit wait in line. A grant may shrink below
// the number of calls under way; no call gets a credit then until enough of
// them are answered.

// enter waits for a credit and returns the call that holds the credit. The call
// has the XID xid, or a new XID if xid is 0 or in use, unless it is the caller's own.
func (c *ClientConn) enter(ctx context.Context, x *oncrpc.Exchange, xid uint32, own bool) (*clientCall, error) {
	c.mu.Lock()
	if err := c.err; err != nil {
		c.mu.Unlock()
		return nil, err
	}
	o := c.newCallLocked()
	o.x, o.xid, o.own = x, xid, own
	if len(c.calls) < c.granted && len(c.waiting) == 0 {
		c.joinLocked(o)
		c.mu.Unlock()
		return o, nil
	}
	c.waiting = append(c.waiting, o)
	c.mu.Unlock()
	select {
	case <-o.turn:
		if o.admitted {
			return o, nil
		}
		o.release()
		return nil, c.cause()
	case <-ctx.Done():
		c.quitLine(o)
		return nil, context.Cause(ctx)
	}
}

// joinLocked gives a call a credit and an XID.
func (c *ClientConn) joinLocked(o *clientCall) {
	for !o.own && (o.xid == 0 || c.calls[o.xid] != nil) {
		o.xid = c.xids.Next()
	}
	c.calls[o.xid] = o
	o.admitted = true
}

// leaveLocked removes a call, and gives the free credits to the calls that have
// waited longest.
func (c *ClientConn) leaveLocked(o *clientCall) {
	delete(c.calls, o.xid)
	for len(c.calls) < c.granted && len(c.waiting) > 0 {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.joinLocked(next)
		next.turn <- struct{}{}
	}
}

// checkOverdue returns for how many checks the server has owed the reply that a
// caller has waited for longest, and counts this check.
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

// quitLine ends a call that waits for a credit. The credit may have arrived
// just now.
func (c *ClientConn) quitLine(o *clientCall) {
	c.mu.Lock()
	i := slices.Index(c.waiting, o)
	if i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	c.mu.Unlock()
	if i < 0 {
		<-o.turn
		if o.admitted {
			_ = o.unsent(nil)
		}
	}
	o.release()
}

// newCallLocked returns a call with one holder.
func (c *ClientConn) newCallLocked() *clientCall {
	n := len(c.idle)
	if n == 0 {
		o := &clientCall{c: c, got: make(chan outcome, 1), turn: make(chan struct{}, 1)}
		o.holders.Store(1)
		return o
	}
	o := c.idle[n-1]
	c.idle[n-1] = nil
	c.idle = c.idle[:n-1]
	o.holders.Store(1)
	return o
}

// release drops one hold on a call. The last release keeps the call for reuse.
func (o *clientCall) release() {
	if o.holders.Add(-1) > 0 {
		return
	}
	if o.out != nil {
		o.out.Release()
	}
	o.hdr.Lists.Reset()
	*o = clientCall{c: o.c, hdr: wire.Header{Lists: o.hdr.Lists}, got: o.got, turn: o.turn}
	c := o.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) < c.cfg.Credits {
		c.idle = append(c.idle, o)
	}
}
