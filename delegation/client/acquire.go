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

// Granted is what an ACQUIRE has brought.
type Granted struct {
	Types delegation.Types // 0: nothing is granted

	// Attr are the attributes at the time of the grant, an fattr3. They may be
	// cached unless something was changed from here since Acquire was called.
	Attr [delegation.AttrLen]byte
}

// Acquire asks the server for o. What is granted has one user, as by Open, for whom
// Close is to be called; so it is good until Drop or Close. Where Types is 0, nothing
// was granted and there is no such user.
//
// It may be called freely: it sends nothing where that would be of no use or too soon,
// where somebody else asks for o, and where o is held. The error is of the call alone,
// or the cause of ctx's end; what the server refuses is none.
func (s *Set) Acquire(ctx context.Context, o *Object, types delegation.Types, cred rpcmsg.Cred) (Granted, error) {
	if o.line == nil {
		return Granted{}, nil
	}
	c := o.line.present()
	if c == nil || !o.begin(c) {
		return Granted{}, nil
	}
	cred.GIDs = slices.Clone(cred.GIDs) // for whoever waits no longer
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

// An outcome is what Acquire returns.
type outcome struct {
	Granted
	err error
}

// acquire makes the call, and again where the server takes back first what the client
// does not know it holds. It goes on whether or not anybody waits: or else the server
// would take for used what nobody knows of.
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
	case out.Types == 0: // the call has failed, or the grant has been recalled already
		o.postpone(c.set.cfg.Now())
	}
	o.asking = false
	return out
}

// try makes the call once. What it brought is nil unless that is a refusal.
func (c *conn) try(o *Object, x *oncrpc.Exchange) (outcome, *delegation.AcquireRes) {
	c.set.counts.asked.Add(1)
	var op delegation.Op
	a, renew := c.h.Ask(&op, c.set.cfg.Now())
	if renew {
		c.forget(op)
	}
	c.arm()
	if err := c.link.Call(context.Background(), x); err != nil { // it ends with the connection
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

// granted takes a grant.
func (c *conn) granted(o *Object, a delegation.Asking, res *delegation.AcquireRes) outcome {
	now := c.set.cfg.Now()
	c.lease.Store(int64(res.LeaseMS) * int64(time.Millisecond))
	c.mu.Lock() // nothing is dropped before it has an owner
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

// hold makes d what is held of o, with one user.
func (o *Object) hold(c *conn, d *delegation.Delegation, now time.Duration) *holding {
	k := &holding{c: c, d: d, o: o, since: now, used: true}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.users++
	o.held.Store(k)
	c.set.counts.held.Add(1)
	return k
}
