package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A Client makes the calls of NFS version 3 to one server, one method for each
// procedure (RFC 1813, Section 3.3). A call that the server puts off is made
// again, as Config.Patience says.
//
// With an Error, results hold what the server said beside its refusal, such as
// attributes; with other errors they mean nothing. An error that is no Error
// is or wraps what oncrpc.Caller describes, or ErrReply.
type Client struct {
	caller oncrpc.Caller
	cfg    Config
	calls  *sync.Pool // of *call
}

// New returns a Client that calls through caller, which stays the caller's to
// close.
func New(caller oncrpc.Caller, cfg Config) *Client {
	cfg.fill()
	return &Client{caller: caller, cfg: cfg, calls: new(sync.Pool)}
}

// As returns a Client that makes its calls in the name of cred, of which it
// keeps a copy, and is like c otherwise. It costs little.
func (c *Client) As(cred rpcmsg.Cred) *Client {
	cred.GIDs = slices.Clone(cred.GIDs)
	d := *c
	d.cfg.Cred = &cred
	return &d
}

// A call is one procedure under way, and the memory that it needs, which calls
// use again.
type call struct {
	x      oncrpc.Exchange
	status nfs3.Status
}

// begin returns a call without arguments. Its Args are empty, with room.
func (c *Client) begin(proc uint32) *call {
	k, _ := c.calls.Get().(*call)
	if k == nil {
		k = &call{x: oncrpc.Exchange{Prog: nfs3.Program, Vers: nfs3.Version}}
	}
	k.x.Proc = proc
	k.x.Cred = *c.cfg.Cred
	k.x.Args = k.x.Args[:0]
	k.x.MaxResults = nfs3.MaxResult(proc, 0)
	return k
}

func (c *Client) end(k *call) {
	k.x.Release()
	k.x.Item, k.x.Sink = nil, nil
	c.calls.Put(k)
}

// Calls is the key of the value that a context has whose end is to end no call under
// way: the context.Context of such calls. Calls that were not made when the first one
// ends fail with ErrNotMade.
type Calls struct{}

// ErrNotMade is a call that the server has not had, or has put off.
var ErrNotMade = errors.New("nfsclient: not called")

// run makes the call, again where the server puts it off, and notes the status
// that the results begin with.
func (c *Client) run(ctx context.Context, k *call) error {
	calls := ctx
	if outlasting, ok := ctx.Value(Calls{}).(context.Context); ok {
		calls = outlasting
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w: %w", nfs3.ProcName(k.x.Proc), ErrNotMade, context.Cause(ctx))
		}
	}
	start, pause := time.Now(), firstPause
	for {
		if err := c.caller.Call(calls, &k.x); err != nil {
			return fmt.Errorf("%s: %w", nfs3.ProcName(k.x.Proc), err)
		}
		r := k.x.Results // a copy: the method decodes the status too
		k.status = nfs3.Status(r.Uint32())
		if k.status != nfs3.ErrJukebox || time.Since(start)+pause > c.cfg.Patience {
			return nil
		}
		k.x.Release()
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%s: %w: %w while the server put the call off", nfs3.ProcName(k.x.Proc), ErrNotMade, err)
		}
		pause = min(2*pause, lastPause)
	}
}

// outcome is what became of a call whose results have been decoded.
func (k *call) outcome() error {
	if err := k.x.Results.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", nfs3.ProcName(k.x.Proc), ErrReply, err)
	}
	if k.status != nfs3.OK {
		return &Error{Proc: k.x.Proc, Status: k.status}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
