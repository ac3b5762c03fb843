package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A Client calls one server's NFS version 3 procedures, with one method for
// each (RFC 1813, Section 3.3). If the server replies NFS3ERR_JUKEBOX, the
// Client repeats the call as Config.Patience describes.
//
// If the error is an Error, the results hold the rest of the server's reply,
// such as attributes. With other errors, the results are meaningless. An error
// that is not an Error is or wraps an error described at oncrpc.Caller, or
// ErrReply.
type Client struct {
	caller oncrpc.Caller
	cfg    Config
	calls  *sync.Pool // reusable *call values
}

// New returns a Client that calls through caller. The creator of caller must
// close it.
func New(caller oncrpc.Caller, cfg Config) *Client {
	cfg.setDefaults()
	return &Client{caller: caller, cfg: cfg, calls: new(sync.Pool)}
}

// As returns a Client like c whose calls carry cred. It copies cred, and is
// cheap.
func (c *Client) As(cred rpcmsg.Cred) *Client {
	cred.GIDs = slices.Clone(cred.GIDs)
	d := *c
	d.cfg.Cred = &cred
	return &d
}

// Limit returns a Client that sends only the calls for which check returns nil.
// For other calls it returns the error from check.
func (c *Client) Limit(check func(x *oncrpc.Exchange) error) *Client {
	d := *c
	d.caller = limitedCaller{c.caller, check}
	return &d
}

type limitedCaller struct {
	oncrpc.Caller
	check func(x *oncrpc.Exchange) error
}

func (l limitedCaller) Call(ctx context.Context, x *oncrpc.Exchange) error {
	if err := l.check(x); err != nil {
		return err
	}
	return l.Caller.Call(ctx, x)
}

// Flavor returns the flavor of c's calls.
func (c *Client) Flavor() uint32 { return c.cfg.Cred.Flavor }

// ForMount runs a call that a mount itself needs: FSINFO, PATHCONF, or GETATTR
// on the root. If c uses a Kerberos flavor, ForMount tries AUTH_SYS first: the
// user who mounts may have no ticket, and servers reply to these calls over
// AUTH_SYS whatever the export's flavors are (RFC 2623, Section 2.3.2).
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

// A call is an in-flight procedure call with its reusable memory.
type call struct {
	x      oncrpc.Exchange
	status nfs3.Status
}

// procName returns the procedure's name.
func (k *call) procName() string { return procName(k.x.Prog, k.x.Proc) }

func procName(prog, proc uint32) string {
	if prog == nfsacl.Program {
		return nfsacl.ProcName(proc)
	}
	return nfs3.ProcName(proc)
}

// beginCall returns a call to proc from the pool. Its Args are empty, but may
// have capacity.
func (c *Client) beginCall(proc uint32) *call {
	k, _ := c.calls.Get().(*call)
	if k == nil {
		k = new(call)
	}
	k.x.Prog, k.x.Vers, k.x.Proc = nfs3.Program, nfs3.Version, proc
	k.x.Cred = *c.cfg.Cred
	k.x.Args = k.x.Args[:0]
	k.x.MaxResults = nfs3.MaxResult(proc, 0)
	return k
}

func (c *Client) releaseCall(k *call) {
	k.x.Release()
	k.x.Item, k.x.Sink, k.x.Locate = nil, nil, nil
	c.calls.Put(k)
}

// Calls is the key for a context value that is itself a context.Context. If a
// context has this value, calls in flight continue when the context ends, and
// stop only when the value ends. Calls not yet sent when the first context ends
// fail with ErrNotMade.
type Calls struct{}

// ErrNotMade is the error for a call that the server has not received, or has
// postponed.
var ErrNotMade = errors.New("nfsclient: not called")

// runCall sends the call, repeats it while the server replies NFS3ERR_JUKEBOX,
// and stores the status from the start of the results.
func (c *Client) runCall(ctx context.Context, k *call) error {
	callCtx := ctx
	if callsCtx, ok := ctx.Value(Calls{}).(context.Context); ok {
		callCtx = callsCtx
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w: %w", k.procName(), ErrNotMade, context.Cause(ctx))
		}
	}
	start, pause := time.Now(), firstPause
	for {
		if err := c.caller.Call(callCtx, &k.x); err != nil {
			return fmt.Errorf("%s: %w", k.procName(), err)
		}
		r := k.x.Results // a copy: the method decodes the status too
		k.status = nfs3.Status(r.Uint32())
		if k.status != nfs3.ErrJukebox || time.Since(start)+pause > c.cfg.Patience {
			return nil
		}
		k.x.Release()
		if err := sleepContext(ctx, pause); err != nil {
			return fmt.Errorf("%s: %w: %w while the server postponed the call", k.procName(), ErrNotMade, err)
		}
		pause = min(2*pause, lastPause)
	}
}

// resultError returns the error in a call's decoded results, or nil.
func (k *call) resultError() error {
	if err := k.x.Results.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", k.procName(), ErrReply, err)
	}
	if k.status != nfs3.OK {
		e := &Error{Proc: k.x.Proc, Status: k.status}
		if k.x.Prog != nfs3.Program {
			e.Prog = k.x.Prog
		}
		return e
	}
	return nil
}

func sleepContext(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
