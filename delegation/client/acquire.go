package client

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// AcquireResult is an ACQUIRE's result.
type AcquireResult struct {
	Types delegation.Types // 0: no grant

	// Attr is an fattr3 with the attributes when the grant was made. The caller
	// may cache them unless this client has changed something since it called
	// Acquire.
	Attr [delegation.AttrLen]byte
}

// Acquire requests a delegation for o. A grant counts as one use, as after
// Open, which the caller must end with Close. The grant is therefore valid
// until Drop or Close. If Types is 0, the server granted nothing and there is
// no such use.
//
// Callers may call Acquire freely. No request is sent if an ACQUIRE would be
// useless or too soon, if another caller is acquiring o, or if o is held. The
// error is the RPC's error or ctx's cause; if the server refuses the grant,
// that is not an error.
func (s *Set) Acquire(ctx context.Context, o *Object, types delegation.Types, cred rpcmsg.Cred) (AcquireResult, error) {
	if o.attachment == nil {
		return AcquireResult{}, nil
	}
	c := o.attachment.usableConn()
	if c == nil || !o.beginAcquire(c) {
		return AcquireResult{}, nil
	}
	cred.GIDs = slices.Clone(cred.GIDs) // in case the caller stops waiting
	r := handoff[acquireOutcome]{value: make(chan acquireOutcome, 1)}
	s.background.Go(func() {
		if out := c.acquireWithRetry(o, types, cred); !r.putValue(out) && out.Types != 0 {
			o.Close()
		}
	})
	out, ok := r.waitForValue(ctx)
	if !ok {
		return AcquireResult{}, context.Cause(ctx)
	}
	return out.AcquireResult, out.err
}

// An acquireOutcome holds Acquire's results.
type acquireOutcome struct {
	AcquireResult
	err error
}

// acquireWithRetry sends an ACQUIRE, and sends it again if the server first
// recalls a delegation that the client no longer knows (ReasonHeld). The call
// continues even if no caller waits; otherwise the server would count a grant
// as used that the client does not know.
func (c *conn) acquireWithRetry(o *Object, types delegation.Types, cred rpcmsg.Cred) acquireOutcome {
	args := delegation.AcquireArgs{Handle: o.handle, Types: types}
	x := oncrpc.Exchange{
		Prog: delegation.Program, Vers: delegation.Version, Proc: delegation.ProcAcquire, Cred: cred,
		Args: args.AppendTo(nil), MaxResults: delegation.MaxAcquireRes,
	}
	out, refused := c.sendAcquire(o, &x)
	if refused != nil && refused.Reason == delegation.ReasonHeld {
		out, refused = c.sendAcquire(o, &x)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case refused != nil:
		o.handleRefusal(c, refused)
	case out.Types == 0: // the call failed, or the server has recalled the grant already
		o.startPause(c.set.cfg.Now())
	}
	o.acquiring = false
	return out
}

// sendAcquire sends the call once. The reply is returned only if the server
// refused the grant.
func (c *conn) sendAcquire(o *Object, x *oncrpc.Exchange) (acquireOutcome, *delegation.AcquireRes) {
	c.set.counts.acquires.Add(1)
	var op delegation.Op
	a, renew := c.holder.BeginAcquire(&op, c.set.cfg.Now())
	if renew {
		c.postUnawaited(op)
	}
	c.armTimer()
	if err := c.link.Call(context.Background(), x); err != nil { // fails if the connection closes
		c.holder.NotGranted(a)
		if errors.Is(err, oncrpc.ErrProgUnavail) || errors.Is(err, oncrpc.ErrProcUnavail) {
			c.pauseUntil(math.MaxInt64)
		}
		return acquireOutcome{err: err}, nil
	}
	defer x.Release()
	var res delegation.AcquireRes
	res.Decode(&x.Results)
	if err := x.Results.Done(); err != nil {
		c.holder.NotGranted(a)
		c.abortForViolation(err)
		return acquireOutcome{err: err}, nil
	}
	if res.Status != delegation.StatusOK {
		c.holder.NotGranted(a)
		c.set.counts.refused.Add(1)
		return acquireOutcome{}, &res
	}
	return c.recordGrant(o, a, &res), nil
}

// recordGrant records a grant.
func (c *conn) recordGrant(o *Object, a delegation.PendingAcquire, res *delegation.AcquireRes) acquireOutcome {
	now := c.set.cfg.Now()
	c.lease.Store(int64(res.LeaseMS) * int64(time.Millisecond))
	c.mu.Lock() // prevents dropHoldings before the delegation has an owner
	d, fx, err := c.holder.Granted(a, res)
	if d != nil {
		d.Owner = o.holdDelegation(c, d, now)
	}
	c.mu.Unlock()
	c.applyPosts(fx)
	c.armTimer()
	switch {
	case err != nil:
		c.abortForViolation(err)
		return acquireOutcome{err: err}
	case d == nil:
		return acquireOutcome{}
	}
	c.set.counts.granted.Add(1)
	return acquireOutcome{AcquireResult: AcquireResult{d.Types, [delegation.AttrLen]byte(res.Attr)}}
}

// holdDelegation makes d the delegation for o, with one use.
func (o *Object) holdDelegation(c *conn, d *delegation.Delegation, now time.Duration) *heldDelegation {
	k := &heldDelegation{conn: c, delegation: d, object: o, since: now, countsUse: true}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.userCount++
	o.held.Store(k)
	c.set.counts.held.Add(1)
	return k
}
