package rpcsec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A ClientConfig configures a Client.
type ClientConfig struct {
	// Begin starts to make a context. It is called for each attempt, and must not
	// be nil. Its errors become the errors of calls. bindings are the channel bindings
	// of the connection, nil in clear.
	Begin func(ctx context.Context, bindings []byte) (gss.Initiator, error)

	// Bound, if not nil, is shared with the Clients of other users.
	Bound *Bound

	// Flavor is one of rpcmsg.AuthKrb5, AuthKrb5i and AuthKrb5p: what is protected
	// of each call.
	Flavor uint32

	// Prog and Vers are a program of the server. The calls that make and end a
	// context name it.
	Prog, Vers uint32
}

// A Client is a Caller that protects the calls of one user by a context, which it
// makes when the first call comes. It makes the calls through another Caller,
// which may have several connections.
//
//	Call ──context──▶ number ──sign──▶ Caller ──▶ reply ──verify──▶ results
//	         ▲                                      │
//	         └── make another ◀── CREDPROBLEM, CTXPROBLEM, twice at most
type Client struct {
	next oncrpc.Caller
	cfg  ClientConfig

	bound      *Bound
	signatures sync.Pool // of *signature

	mu     sync.Mutex
	using  *session
	making *attempt // nil: nobody makes a context
	closed bool
}

// An attempt to make a context. Calls wait for its end.
type attempt struct {
	done chan struct{}
	err  error // set before done is closed
}

// ErrReply means that a reply was not protected by the server's end of the context:
// it is broken, or forged.
var ErrReply = errors.New("rpcsec: the reply does not come from the server's end of the security context")

// errClosed is the error of calls after Close.
var errClosed = errors.New("rpcsec: client closed")

// NewClient returns a Client that makes its calls through next.
func NewClient(next oncrpc.Caller, cfg ClientConfig) *Client {
	return &Client{next: next, cfg: cfg, bound: cmp.Or(cfg.Bound, new(Bound))}
}

var _ oncrpc.Caller = (*Client)(nil)

// Call makes a call (oncrpc.Caller). x.Cred is ignored, and x.Signer must be nil. If the
// server does not know the context any more, Call makes another context and
// repeats the call (RFC 2203, Section 5.3.3.3), with the same XID: an earlier transmission,
// whose reply was lost with its connection, may have been executed, and the server
// then has the reply. x.XID is 0 after success; a caller that repeats a call which has
// failed leaves x.XID as it is, and others clear it.
func (c *Client) Call(ctx context.Context, x *oncrpc.Exchange) error {
	for try := 0; ; try++ {
		k, err := c.session(ctx)
		if err != nil {
			return err
		}
		if err = c.callIn(ctx, k, x); err == nil {
			x.XID = 0
			return nil
		}
		if try == maxRefreshes || !errors.Is(err, rpcmsg.AuthCredProblem) && !errors.Is(err, rpcmsg.AuthCtxProblem) {
			return err
		}
		c.drop(k)
	}
}

// callIn makes a call in a context.
func (c *Client) callIn(ctx context.Context, k *session, x *oncrpc.Exchange) error {
	s, _ := c.signatures.Get().(*signature)
	if s == nil {
		s = new(signature)
	}
	defer c.signatures.Put(s)
	return k.call(ctx, c.next, x, s, c.cfg.Flavor-rpcmsg.AuthKrb5+serviceNone)
}

// service returns the service of the Client's flavor.
func (c *Client) service() uint32 { return c.cfg.Flavor - rpcmsg.AuthKrb5 + serviceNone }

// session returns the context for a call. It makes one if there is none, or waits
// for another call that does.
func (c *Client) session(ctx context.Context) (*session, error) {
	for {
		c.mu.Lock()
		switch {
		case c.closed:
			c.mu.Unlock()
			return nil, errClosed
		case c.using != nil && c.using.lasts(time.Now()):
			k := c.using
			c.mu.Unlock()
			return k, nil
		case c.making == nil:
			a := &attempt{done: make(chan struct{})}
			c.making = a
			c.mu.Unlock()
			return c.make(ctx, a)
		}
		a := c.making
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

// errAbandoned is the error of an attempt whose call has ended. Another call that
// waits makes the next.
var errAbandoned = errors.New("rpcsec: the call has ended")

// make makes a context, and ends the attempt. If the connection was lost in
// between, or away for long, it begins again, because a server refuses the same token,
// and an old one.
func (c *Client) make(ctx context.Context, a *attempt) (*session, error) {
	k, err := c.establish(ctx)
	for try := 0; try < maxResent && errors.Is(err, ErrResent) && ctx.Err() == nil; try++ {
		k, err = c.establish(ctx)
	}
	c.mu.Lock()
	c.making, a.err = nil, err
	if err != nil && ctx.Err() != nil {
		a.err = fmt.Errorf("%w: %w", errAbandoned, err)
	}
	if err == nil {
		c.using = k
	}
	c.mu.Unlock()
	close(a.done)
	return k, err
}

// drop stops using a context that the server does not have.
func (c *Client) drop(k *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.using == k {
		c.using = nil
	}
}

// Close ends the context at the server, if it is reached before ctx ends (RFC 2203,
// Section 5.4). Later calls fail. The caller must have ended all calls.
func (c *Client) Close(ctx context.Context) {
	c.mu.Lock()
	k := c.using
	c.using, c.closed = nil, true
	c.mu.Unlock()
	if k == nil {
		return
	}
	s := &signature{session: k, proc: procDestroy, service: serviceNone}
	x := oncrpc.Exchange{Prog: c.cfg.Prog, Vers: c.cfg.Vers, Signer: s}
	if c.next.Call(ctx, &x) == nil { // the server forgets the context in any case, later
		x.Release()
	}
	s.end()
}
