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

// Granted is the result of an ACQUIRE.
type Granted struct {
	Types delegation.Types // 0: no grant

	// Attr are the attributes at the time of the grant, an fattr3. The caller
	// may cache them unless this client has changed something since it called
	// Acquire.
	Attr [delegation.AttrLen]byte
}

// Acquire asks the server for a delegation of o. A grant counts as one user, as
// after Open, and the caller must call Close for that user. The grant is
// therefore good until Drop or Close. If Types is 0, the server granted nothing
// and there is no such user.
//
// Callers may call Acquire freely. No request is sent if an ACQUIRE would be
// useless or too soon, if another caller is asking for o, or if o is held. The
// error is that of the call alone, or the cause of ctx's end; a refusal by the
// server is not an error.
func (s *Set) Acquire(ctx context.Context, o *Object, types delegation.Types, cred rpcmsg.Cred) (Granted, error) {
	if o.line == nil {
		return Granted{}, nil
	}
	c := o.line.present()
	if c == nil || !o.begin(c) {
		return Granted{}, nil
	}
	cred.GIDs = slices.Clone(cred.GIDs) // in case the caller stops waiting
	r := handoff[outcome]{c: make(chan outcome, 1)}
	s.running.Go(func() {
		if out := c.acquire(o, types, cred); !r.put(out) && out.Types != 0 {
			o.Close()
		}
	})
	out, ok := r.wait(ctx)
	if !ok {
		return Granted{}, context.Cause(ctx)
	}
	return out.Granted, out.err
}

// An outcome holds the results of Acquire.
type outcome struct {
	Granted
	err error
}

// acquire makes the call. If the server first recalls a delegation that the
// client no longer knows (ReasonHeld), acquire makes the call again. The call
// continues even if no caller waits; otherwise the server would count as used a
// grant unknown to the client.
func (c *conn) acquire(o *Object, types delegation.Types, cred rpcmsg.Cred) outcome {
	args := delegation.AcquireArgs{Handle: o.fh, Types: types}
	x := oncrpc.Exchange{
		Prog: delegation.Program, Vers: delegation.Version, Proc: delegation.ProcAcquire, Cred: cred,
		Args: args.AppendTo(nil), MaxResults: delegation.MaxAcquireRes,
	}
	out, refused := c.try(o, &x)
	if refused != nil && refused.Reason == delegation.ReasonHeld {
		out, refused = c.try(o, &x)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case refused != nil:
		o.refusal(c, refused)
	case out.Types == 0: // the call failed, or the server has recalled the grant already
		o.postpone(c.set.cfg.Now())
	}
	o.asking = false
	return out
}

// try makes the call once. The reply is returned only if it is a refusal.
func (c *conn) try(o *Object, x *oncrpc.Exchange) (outcome, *delegation.AcquireRes) {
	c.set.counts.asked.Add(1)
	var op delegation.Op
	a, renew := c.h.Ask(&op, c.set.cfg.Now())
	if renew {
		c.forget(op)
	}
	c.arm()
	if err := c.link.Call(context.Background(), x); err != nil { // ends with the connection
		c.h.NotGranted(a)
		if errors.Is(err, oncrpc.ErrProgUnavail) || errors.Is(err, oncrpc.ErrProcUnavail) {
			c.hush(math.MaxInt64)
		}
		return outcome{err: err}, nil
	}
	defer x.Release()
	var res delegation.AcquireRes
	res.Decode(&x.Results)
	if err := x.Results.Done(); err != nil {
		c.h.NotGranted(a)
		c.fault(err)
		return outcome{err: err}, nil
	}
	if res.Status != delegation.StatusOK {
		c.h.NotGranted(a)
		c.set.counts.refused.Add(1)
		return outcome{}, &res
	}
	return c.granted(o, a, &res), nil
}

// granted records a grant.
func (c *conn) granted(o *Object, a delegation.Asking, res *delegation.AcquireRes) outcome {
	now := c.set.cfg.Now()
	c.lease.Store(int64(res.LeaseMS) * int64(time.Millisecond))
	c.mu.Lock() // no drop before the delegation has an owner
	d, fx, err := c.h.Granted(a, res)
	if d != nil {
		d.Owner = o.hold(c, d, now)
	}
	c.mu.Unlock()
	c.do(fx)
	c.arm()
	switch {
	case err != nil:
		c.fault(err)
		return outcome{err: err}
	case d == nil:
		return outcome{}
	}
	c.set.counts.granted.Add(1)
	return outcome{Granted: Granted{d.Types, [delegation.AttrLen]byte(res.Attr)}}
}

// hold makes d the delegation of o, with one user.
func (o *Object) hold(c *conn, d *delegation.Delegation, now time.Duration) *holding {
	k := &holding{c: c, d: d, o: o, since: now, used: true}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.users++
	o.held.Store(k)
	c.set.counts.held.Add(1)
	return k
}
