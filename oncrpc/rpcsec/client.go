package rpcsec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A ClientConfig configures a Client.
type ClientConfig struct {
	// Begin starts to establish a context. It is called for each attempt, and must not be
	// nil. Calls fail with its errors. bindings are the connection's channel bindings, or
	// nil if it is unencrypted.
	Begin func(ctx context.Context, bindings []byte) (gss.Initiator, error)

	// Bound, if not nil, is shared with other users' Clients.
	Bound *Bound

	// Flavor is rpcmsg.AuthKrb5, AuthKrb5i or AuthKrb5p, and determines how each call is
	// protected.
	Flavor uint32

	// Prog and Vers are one of the server's programs, which the calls that create and
	// destroy a context use.
	Prog, Vers uint32
}

// A Client is a Caller that protects one user's calls with a context, which it
// establishes at the first call. It makes the calls through another Caller, which may
// have several connections.
//
//	Call ──context──▶ number ──sign──▶ Caller ──▶ reply ──verify──▶ results
//	         ▲                                      │
//	         └── make another ◀── CREDPROBLEM, CTXPROBLEM, twice at most
type Client struct {
	next oncrpc.Caller
	cfg  ClientConfig

	bound      *Bound
	signatures sync.Pool // contains *signature

	mu      sync.Mutex
	current *session
	pending *attempt // nil: no context is being established
	closed  bool
}

// An attempt is one attempt to establish a context. Calls wait until it is done.
type attempt struct {
	done chan struct{}
	err  error // set before done is closed
}

// ErrReply means that a reply was not protected by the server's end of the context: it is
// corrupt or forged.
var ErrReply = errors.New("rpcsec: the reply was not protected by the server's end of the security context")

// errClosed is the error for calls after Close.
var errClosed = errors.New("rpcsec: client closed")

// NewClient returns a Client that makes its calls through next.
func NewClient(next oncrpc.Caller, cfg ClientConfig) *Client {
	return &Client{next: next, cfg: cfg, bound: cmp.Or(cfg.Bound, new(Bound))}
}

var _ oncrpc.Caller = (*Client)(nil)

// Call makes a call (oncrpc.Caller). x.Cred is ignored, and x.Signer must be nil. If the
// server no longer has the context, Call establishes another one and repeats the call
// (RFC 2203, Section 5.3.3.3) with the same XID: an earlier transmission, whose reply was
// lost with its connection, may have been executed, and the server then has the reply.
// After success x.XID is 0; a caller that repeats a failed call leaves x.XID unchanged,
// and others clear it.
func (c *Client) Call(ctx context.Context, x *oncrpc.Exchange) error {
	for try := 0; ; try++ {
		k, err := c.getSession(ctx)
		if err != nil {
			return err
		}
		if err = c.callWith(ctx, k, x); err == nil {
			x.XID = 0
			return nil
		}
		if try == maxRefreshes || !errors.Is(err, rpcmsg.AuthCredProblem) && !errors.Is(err, rpcmsg.AuthCtxProblem) {
			return err
		}
		c.dropSession(k)
	}
}

// callWith makes a call in a context.
func (c *Client) callWith(ctx context.Context, k *session, x *oncrpc.Exchange) error {
	s, _ := c.signatures.Get().(*signature)
	if s == nil {
		s = new(signature)
	}
	defer c.signatures.Put(s)
	return k.makeCall(ctx, c.next, x, s, c.cfg.Flavor-rpcmsg.AuthKrb5+serviceNone)
}

// service returns the service for the Client's flavor.
func (c *Client) service() uint32 { return c.cfg.Flavor - rpcmsg.AuthKrb5 + serviceNone }

// getSession returns the context for a call. If there is none, it establishes one, or
// waits for another call that does.
func (c *Client) getSession(ctx context.Context) (*session, error) {
	for {
		c.mu.Lock()
		switch {
		case c.closed:
			c.mu.Unlock()
			return nil, errClosed
		case c.current != nil && c.current.isUsable(time.Now()):
			k := c.current
			c.mu.Unlock()
			return k, nil
		case c.pending == nil:
			a := &attempt{done: make(chan struct{})}
			c.pending = a
			c.mu.Unlock()
			return c.runAttempt(ctx, a)
		}
		a := c.pending
		c.mu.Unlock()
		select {
		case <-a.done:
			if a.err != nil && !errors.Is(a.err, errAbandoned) {
				return nil, a.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// errAbandoned is the error of an attempt whose call has been cancelled. Another waiting
// call makes the next attempt.
var errAbandoned = errors.New("rpcsec: the call was cancelled")

// runAttempt establishes a context, and completes the attempt. If the connection was lost
// in between, or down for long, it starts again, because a server rejects a repeated or
// old token.
func (c *Client) runAttempt(ctx context.Context, a *attempt) (*session, error) {
	k, err := c.establishSession(ctx)
	for try := 0; try < maxRestarts && errors.Is(err, ErrResent) && ctx.Err() == nil; try++ {
		k, err = c.establishSession(ctx)
	}
	c.mu.Lock()
	c.pending, a.err = nil, err
	if err != nil && ctx.Err() != nil {
		a.err = fmt.Errorf("%w: %w", errAbandoned, err)
	}
	if err == nil {
		c.current = k
	}
	c.mu.Unlock()
	close(a.done)
	return k, err
}

// dropSession stops using a context that the server no longer has.
func (c *Client) dropSession(k *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == k {
		c.current = nil
	}
}

// Close destroys the context at the server, if it can be reached before ctx ends (RFC
// 2203, Section 5.4). Later calls fail. All calls must have returned.
func (c *Client) Close(ctx context.Context) {
	c.mu.Lock()
	k := c.current
	c.current, c.closed = nil, true
	c.mu.Unlock()
	if k == nil {
		return
	}
	s := &signature{session: k, proc: procDestroy, service: serviceNone}
	x := oncrpc.Exchange{Prog: c.cfg.Prog, Vers: c.cfg.Vers, Signer: s}
	if c.next.Call(ctx, &x) == nil { // the server removes the context later in any case
		x.Release()
	}
	s.reset()
}
