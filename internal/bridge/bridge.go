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

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Bridge is an oncrpc.Service that passes calls to a server. Its fields must
// be set before the first Serve. The oncrpc.Server in front of it must take
// records of MaxRecord bytes.
type Bridge struct {
	// NFS makes the calls of all programs except MOUNT: an rpcrdma.Client.
	NFS oncrpc.Caller

	// Credits returns how many NFS calls may be under way at a time; the Bridge
	// shares them out between its clients. nil means no bound.
	Credits func() int

	// MOUNT makes the calls of MOUNT; nil means NFS.
	MOUNT oncrpc.Caller

	// Dial connects to the server for the signed calls of one client: an
	// rpcrdma.ClientConn. nil denies such calls.
	Dial func(context.Context) (Line, error)

	// Insecure also accepts calls from ports of 1024 and above, which any user
	// of the client's host may open. Otherwise such calls are denied
	// (AuthTooWeak).
	Insecure bool

	// Log gets calls that fail in the Bridge; nil means slog.Default.
	Log *slog.Logger

	start      sync.Once
	queue      fairQueue // of NFS
	exchanges  sync.Pool // of *oncrpc.Exchange
	lines      oncrpc.Memo[ownLine]
	places     *fairshare.Places // of these
	reserved   *fairshare.Places // of those from reserved ports
	complained atomic.Int64      // Unix time in nanoseconds
}

var _ oncrpc.Service = (*Bridge)(nil)

// errItem reports a reply whose data item is not at NFS's place.
var errItem = errors.New("bridge: data item of a reply without its length")

// Serve passes a call on (oncrpc.Service). It drops messages that are not
// calls: a server could take such a message for a reply to a call of its own
// (RFC 8167).
//
// Serve itself refuses versions of NFS other than 3. The server may have them,
// but the bridge knows neither their data nor their sessions.
func (b *Bridge) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	c, ok := oncrpc.ParseCall(req.Msg)
	switch {
	case !ok:
		return false
	case c.Prog == nfs3.Program && c.Vers != nfs3.Version:
		rep.Head = rpcmsg.AppendProgMismatch(rep.Head, c.XID, nfs3.Version, nfs3.Version)
		return true
	case signed(&c) && (b.Dial == nil || req.Peer == nil):
		b.complain("call denied", &c, req.Peer, errSigned)
		rep.Head = rpcmsg.AppendAuthError(rep.Head, c.XID, rpcmsg.AuthTooWeak)
		rep.NoReplay = true
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
	case ctx.Err() != nil: // the caller has gone
		return false
	case errors.Is(err, rdma.ErrClosed), errors.Is(err, oncrpc.ErrUnreachable), errors.Is(err, errLine):
		// The fate of the call is unknown, so there is no answer.
		b.complain("connection cut, so that its client makes the call again", &c, req.Peer, err)
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

// relay makes the call, and passes its reply to the client.
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
	if err := b.call(ctx, x, c, req.Peer); err != nil {
		return err
	}
	return deliver(x, c, rep)
}

// call makes the client's call c to the server.
func (b *Bridge) call(ctx context.Context, x *oncrpc.Exchange, c *oncrpc.Call, peer *oncrpc.Peer) error {
	b.start.Do(func() {
		b.queue.limit = b.Credits
		b.places, b.reserved = fairshare.NewPlaces(maxLines), fairshare.NewPlaces(maxLines)
	})
	if signed(c) {
		return b.callSigned(ctx, x, c.XID, peer)
	}
	if x.Prog == mount3.Program && b.MOUNT != nil {
		return b.MOUNT.Call(ctx, x)
	}
	if err := b.queue.acquire(ctx, peer); err != nil {
		return err
	}
	defer b.queue.give(peer)
	return b.NFS.Call(ctx, x)
}

// deliver turns the reply to x into the reply to the client's call c.
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
	// TCP does not distinguish a reply's head and item.
	rep.Item, x.Lent = x.Lent, nil
	rep.Item.B = x.Reply
	return nil
}

// itemLen returns the length of the data item in Sink. The length is the last
// word of the reply, because every NFS item is the last of its results. The
// server may have written the padding too (RFC 8166, Section 3.4.6.2).
func itemLen(x *oncrpc.Exchange) (int, error) {
	n := int64(binary.BigEndian.Uint32(x.Reply[len(x.Reply)-4:]))
	if pad := int64(x.Placed) - n; pad < 0 || pad > int64(xdr.Pad(int(n))) {
		return 0, fmt.Errorf("%w: %d bytes, said to be %d", errItem, x.Placed, n)
	}
	return int(n), nil
}

// refused reports whether the server has not executed the call, or has
// postponed it, so that a retransmission may be executed.
func refused(x *oncrpc.Exchange, c *oncrpc.Call) bool {
	r := xdr.NewReader(x.Reply)
	if oncrpc.ReadReply(&r, c.XID) != nil {
		return true
	}
	return c.Prog == nfs3.Program && nfs3.Status(r.Uint32()) == nfs3.ErrJukebox
}

// complain logs the fate of a call, with a limited rate.
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
