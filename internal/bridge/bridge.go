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
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A Bridge is an oncrpc.Service that forwards calls to a server. Its fields must be
// set before the first Serve. The oncrpc.Server in front of it must accept records
// up to MaxRecord bytes.
type Bridge struct {
	// NFS sends the calls to all programs except MOUNT: an rpcrdma.Client.
	NFS oncrpc.Caller

	// Credits returns the number of NFS calls that may be in flight at a time; the
	// Bridge distributes them among its clients. nil means no bound.
	Credits func() int

	// MOUNT sends the MOUNT calls; nil means NFS.
	MOUNT oncrpc.Caller

	// Dial connects to the server for one client's signed calls: an
	// rpcrdma.ClientConn. If it is nil, such calls are denied.
	Dial func(context.Context) (Line, error)

	// Insecure also accepts calls from port 1024 and above, which any user on the
	// client's host may open. Otherwise such calls are denied (AuthTooWeak).
	Insecure bool

	// Log receives calls that fail in the Bridge; nil means slog.Default.
	Log *slog.Logger

	start           sync.Once
	queue           fairQueue // for NFS calls
	exchanges       sync.Pool // *oncrpc.Exchange values
	ownConns        oncrpc.Memo[ownConn]
	unreservedSlots *fairshare.Places // for own connections from other ports
	reservedSlots   *fairshare.Places // for own connections from reserved ports
	lastLogged      atomic.Int64      // Unix time in nanoseconds
}

var _ oncrpc.Service = (*Bridge)(nil)

// errItem reports a reply whose data item is not where NFS has it.
var errItem = errors.New("bridge: data item of a reply without its length")

// Serve forwards a call (oncrpc.Service). It drops messages that are not calls: a
// server could take such a message for a reply to its own call (RFC 8167).
//
// Serve itself rejects NFS versions other than 3. The server may support them, but
// the bridge handles neither their data nor their sessions.
func (b *Bridge) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	c, ok := oncrpc.ParseCall(req.Msg)
	switch {
	case !ok:
		return false
	case c.Prog == nfs3.Program && c.Vers != nfs3.Version:
		rep.Head = rpcmsg.AppendProgMismatch(rep.Head, c.XID, nfs3.Version, nfs3.Version)
		return true
	case isSigned(&c) && (b.Dial == nil || req.Peer == nil):
		b.logFailure("call denied", &c, req.Peer, errSigned)
		rep.Head = rpcmsg.AppendAuthError(rep.Head, c.XID, rpcmsg.AuthTooWeak)
		rep.NoReplay = true
		return true
	case !b.isVouched(&c, req.Peer):
		b.logFailure("call denied", &c, req.Peer, errPort)
		rep.Head = rpcmsg.AppendAuthError(rep.Head, c.XID, rpcmsg.AuthTooWeak)
		rep.NoReplay = true
		return true
	}
	err := b.relayCall(ctx, &c, req, rep)
	if err == nil {
		return true
	}
	rep.DropItem()
	switch {
	case ctx.Err() != nil: // the client has disconnected
		return false
	case errors.Is(err, rdma.ErrClosed), errors.Is(err, oncrpc.ErrUnreachable), errors.Is(err, errNoConn):
		// It is unknown whether the call was executed, so there is no reply.
		b.logFailure("connection closed, so that its client sends the call again", &c, req.Peer, err)
		if req.Peer.Cut != nil {
			req.Peer.Cut(err)
		}
		return false
	}
	b.logFailure("call failed", &c, req.Peer, err)
	rep.Head = oncrpc.AppendSystemErr(rep.Head, c.XID)
	rep.NoReplay = true
	return true
}

// relayCall sends the call, and forwards its reply to the client.
func (b *Bridge) relayCall(ctx context.Context, c *oncrpc.Call, req *oncrpc.Request, rep *oncrpc.Reply) error {
	x, _ := b.exchanges.Get().(*oncrpc.Exchange)
	if x == nil {
		x = new(oncrpc.Exchange)
	}
	defer func() {
		x.Release()
		*x = oncrpc.Exchange{}
		b.exchanges.Put(x)
	}()
	planExchange(x, c, req.Msg, rep)
	reserveReply(x, rep)
	if err := b.callServer(ctx, x, c, req.Peer); err != nil {
		return err
	}
	return fillReply(x, c, rep)
}

// callServer sends the client's call c to the server.
func (b *Bridge) callServer(ctx context.Context, x *oncrpc.Exchange, c *oncrpc.Call, peer *oncrpc.Peer) error {
	b.start.Do(func() {
		b.queue.limit = b.Credits
		b.unreservedSlots, b.reservedSlots = fairshare.NewPlaces(maxOwnConns), fairshare.NewPlaces(maxOwnConns)
	})
	if isSigned(c) {
		return b.callSigned(ctx, x, c.XID, peer)
	}
	if x.Prog == mount3.Program && b.MOUNT != nil {
		return b.MOUNT.Call(ctx, x)
	}
	if err := b.queue.acquire(ctx, peer); err != nil {
		return err
	}
	defer b.queue.release(peer)
	return b.NFS.Call(ctx, x)
}

// fillReply turns the reply to x into the reply to the client's call c.
func fillReply(x *oncrpc.Exchange, c *oncrpc.Call, rep *oncrpc.Reply) error {
	binary.BigEndian.PutUint32(x.Reply, c.XID)
	rep.NoReplay = mayReexecute(x, c)
	if x.Placed > 0 {
		n, err := dataItemLen(x)
		if err != nil {
			return err
		}
		rep.Head = append(rep.Head, x.Reply...)
		rep.Item.B = rep.Item.B[:n]
		return nil
	}
	rep.DropItem()
	if x.Lent == nil || len(x.Reply) <= copyLimit {
		rep.Head = append(rep.Head, x.Reply...)
		return nil
	}
	// TCP does not distinguish a reply's head and item.
	rep.Item, x.Lent = x.Lent, nil
	rep.Item.B = x.Reply
	return nil
}

// dataItemLen returns the data item's length in Sink. The reply's last word has the
// length, because every NFS item is the last result. The server may also have
// written the padding (RFC 8166, Section 3.4.6.2).
func dataItemLen(x *oncrpc.Exchange) (int, error) {
	n := int64(binary.BigEndian.Uint32(x.Reply[len(x.Reply)-4:]))
	if pad := int64(x.Placed) - n; pad < 0 || pad > int64(xdr.Pad(int(n))) {
		return 0, fmt.Errorf("%w: %d bytes, said to be %d", errItem, x.Placed, n)
	}
	return int(n), nil
}

// mayReexecute reports whether the server has not executed the call, or has
// postponed it, so that a retransmission may be executed.
func mayReexecute(x *oncrpc.Exchange, c *oncrpc.Call) bool {
	r := xdr.NewReader(x.Reply)
	if oncrpc.ReadReply(&r, c.XID) != nil {
		return true
	}
	return c.Prog == nfs3.Program && nfs3.Status(r.Uint32()) == nfs3.ErrJukebox
}

// logFailure logs a call that failed, with a limited rate.
func (b *Bridge) logFailure(what string, c *oncrpc.Call, peer *oncrpc.Peer, err error) {
	now, last := time.Now().UnixNano(), b.lastLogged.Load()
	if now-last < int64(logInterval) || !b.lastLogged.CompareAndSwap(last, now) {
		return
	}
	log := b.Log
	if log == nil {
		log = slog.Default()
	}
	log.Warn(what, "client", peer.Addr, "prog", c.Prog, "vers", c.Vers, "proc", c.Proc, "err", err)
}
