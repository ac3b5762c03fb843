package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A Client makes the calls of NFS version 3 to one server, one method for each
// procedure (RFC 1813, Section 3.3). If the server puts a call off, the Client
// repeats the call as Config.Patience describes.
//
// If the error is an Error, results hold the rest of the server's reply, such
// as attributes; with other errors, results are meaningless. An error that is
// not an Error is or wraps an error described at oncrpc.Caller, or ErrReply.
type Client struct {
	caller oncrpc.Caller
	cfg    Config
	calls  *sync.Pool // of *call
}

// New returns a Client that calls through caller. The creator of caller must
// close it.
func New(caller oncrpc.Caller, cfg Config) *Client {
	cfg.fill()
	return &Client{caller: caller, cfg: cfg, calls: new(sync.Pool)}
}

// As returns a Client that makes its calls in the name of cred and otherwise is
// like c. It copies cred, and is cheap.
func (c *Client) As(cred rpcmsg.Cred) *Client {
	cred.GIDs = slices.Clone(cred.GIDs)
	d := *c
	d.cfg.Cred = &cred
	return &d
}

// Flavor returns the flavour of c's calls.
func (c *Client) Flavor() uint32 { return c.cfg.Cred.Flavor }

// ForMount makes a call that a mount itself needs: FSINFO, PATHCONF, or GETATTR of the
// root. If c's flavour is one of Kerberos, the call is made with AUTH_SYS first, with
// which servers answer these calls whatever the flavours of the export are (RFC 2623,
// Section 2.3.2): the user who mounts may have no ticket.
func (c *Client) ForMount(call func(*Client) error) error {
	if !exports.Flavor(c.Flavor()).Kerberos() {
		return call(c)
	}
	cred := *c.cfg.Cred
	cred.Flavor = rpcmsg.AuthSys
	if call(c.As(cred)) == nil {
		return nil
	}
	return call(c)
}

// A call is one procedure under way, with its reusable memory.
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
	k.x.Item, k.x.Sink, k.x.Locate = nil, nil, nil
	c.calls.Put(k)
}

// Calls is the key of a context value, which is itself a context.Context. If a
// context has this value, its end does not end the calls under way; only the
// end of the value does. Calls not yet made when the first context ends fail
// with ErrNotMade.
type Calls struct{}

// ErrNotMade is the error of a call that the server has not received, or has
// put off.
var ErrNotMade = errors.New("nfsclient: not called")

// run makes the call, repeats it if the server puts it off, and stores the
// status at the start of the results.
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
			return fmt.Errorf("%s: %w: %w while the server postponed the call", nfs3.ProcName(k.x.Proc), ErrNotMade, err)
		}
		pause = min(2*pause, lastPause)
	}
}

// outcome returns the error of a call whose results have been decoded, or nil.
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
