package bridge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Bridge is an oncrpc.Service that has a server answer the calls. Its fields
// are set before the first Serve. The oncrpc.Server in front of it takes records
// of MaxRecord bytes.
type Bridge struct {
	// NFS makes the calls of all programs but MOUNT: an rpcrdma.Client.
	NFS oncrpc.Caller

	// Credits returns how many calls of NFS may be under way at a time, which
	// the Bridge shares out between its clients; nil means that there is no
	// bound.
	Credits func() int

	// MOUNT makes those of MOUNT; nil means NFS.
	MOUNT oncrpc.Caller

	// Insecure takes calls from ports of 1024 and above too, which any user of
	// the client's host may open. Else they are denied (AuthTooWeak).
	Insecure bool

	// Log is told of calls that fail here; nil means slog.Default.
	Log *slog.Logger

	start      sync.Once
	queue      fairQueue    // of NFS
	exchanges  sync.Pool    // of *oncrpc.Exchange
	complained atomic.Int64 // Unix time in nanoseconds
}

var _ oncrpc.Service = (*Bridge)(nil)

// errItem: a reply in which a data item is not where NFS has one.
var errItem = errors.New("bridge: data item of a reply without its length")

// Serve passes a call on (oncrpc.Service). What is no call goes nowhere: a
// server could take it for a reply to a call of its own (RFC 8167).
//
// Other versions of NFS than 3 are answered here. The server may have them, but
// the bridge knows neither their data nor their sessions.
func (b *Bridge) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	c, ok := oncrpc.ParseCall(req.Msg)
	switch {
	case !ok:
		return false
	case c.Prog == nfs3.Program && c.Vers != nfs3.Version:
		rep.Head = rpcmsg.AppendProgMismatch(rep.Head, c.XID, nfs3.Version, nfs3.Version)
		return true
	case !b.vouched(&c, req.Peer):
		b.complain("call denied", &c, req.Peer, errPort)
		rep.Head = rpcmsg.AppendAuthError(rep.Head, c.XID, rpcmsg.AuthTooWeak)
		rep.NoReplay = true
		return true
	}
	err := b.relay(ctx, &c, req, rep)
	if err == nil {
		return true
	}
	rep.DropItem()
	switch {
	case ctx.Err() != nil: // nobody waits any more
		return false
	case errors.Is(err, rdma.ErrClosed), errors.Is(err, rpcrdma.ErrUnreachable):
		// What became of the call is not known, so there is no answer.
		b.complain("connection cut, for its server is away", &c, req.Peer, err)
		if req.Peer.Cut != nil {
			req.Peer.Cut(err)
		}
		return false
	}
	b.complain("call failed", &c, req.Peer, err)
	rep.Head = oncrpc.AppendSystemErr(rep.Head, c.XID)
	rep.NoReplay = true
	return true
}

// relay makes the call, and its reply the client's.
func (b *Bridge) relay(ctx context.Context, c *oncrpc.Call, req *oncrpc.Request, rep *oncrpc.Reply) error {
	x, _ := b.exchanges.Get().(*oncrpc.Exchange)
	if x == nil {
		x = new(oncrpc.Exchange)
	}
	defer func() {
		x.Release()
		*x = oncrpc.Exchange{}
		b.exchanges.Put(x)
	}()
	plan(x, c, req.Msg, rep)
	reserve(x, rep)
	if err := b.call(ctx, x, req.Peer); err != nil {
		return err
	}
	return deliver(x, c, rep)
}

// call has the server make a call.
func (b *Bridge) call(ctx context.Context, x *oncrpc.Exchange, peer *oncrpc.Peer) error {
	if x.Prog == mount3.Program && b.MOUNT != nil {
		return b.MOUNT.Call(ctx, x)
	}
	b.start.Do(func() { b.queue.limit = b.Credits })
	if err := b.queue.acquire(ctx, peer); err != nil {
		return err
	}
	defer b.queue.give(peer)
	return b.NFS.Call(ctx, x)
}

// deliver makes the reply to x that to the client's call c.
func deliver(x *oncrpc.Exchange, c *oncrpc.Call, rep *oncrpc.Reply) error {
	binary.BigEndian.PutUint32(x.Reply, c.XID)
	rep.NoReplay = refused(x, c)
	if x.Placed > 0 {
		n, err := itemLen(x)
		if err != nil {
			return err
		}
		rep.Head = append(rep.Head, x.Reply...)
		rep.Item.B = rep.Item.B[:n]
		return nil
	}
	rep.DropItem()
	if x.Lent == nil || len(x.Reply) <= copied {
		rep.Head = append(rep.Head, x.Reply...)
		return nil
	}
	// To TCP it is one whether a reply is head or item.
	rep.Item, x.Lent = x.Lent, nil
	rep.Item.B = x.Reply
	return nil
}

// itemLen returns the length of the data item in Sink, which is the last word of
// the reply: each of NFS's items is the last of its results. The server may have
// written the padding too (RFC 8166, Section 3.4.6.2).
func itemLen(x *oncrpc.Exchange) (int, error) {
	n := int64(binary.BigEndian.Uint32(x.Reply[len(x.Reply)-4:]))
	if pad := int64(x.Placed) - n; pad < 0 || pad > int64(xdr.Pad(int(n))) {
		return 0, fmt.Errorf("%w: %d octets, said to be %d", errItem, x.Placed, n)
	}
	return int(n), nil
}

// refused reports whether the server has not executed the call, or puts it off,
// so that it may be executed when it comes again.
func refused(x *oncrpc.Exchange, c *oncrpc.Call) bool {
	r := xdr.NewReader(x.Reply)
	if oncrpc.ReadReply(&r, c.XID) != nil {
		return true
	}
	return c.Prog == nfs3.Program && nfs3.Status(r.Uint32()) == nfs3.ErrJukebox
}

// complain logs what became of a call, but not of each.
func (b *Bridge) complain(what string, c *oncrpc.Call, peer *oncrpc.Peer, err error) {
	now, last := time.Now().UnixNano(), b.complained.Load()
	if now-last < int64(complainEvery) || !b.complained.CompareAndSwap(last, now) {
		return
	}
	log := b.Log
	if log == nil {
		log = slog.Default()
	}
	log.Warn(what, "client", peer.Addr, "prog", c.Prog, "vers", c.Vers, "proc", c.Proc, "err", err)
}
