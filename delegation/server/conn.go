package server

import (
	"errors"
	"io"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A conn is a connection with delegation counters.
type conn struct {
	keeper      *Keeper
	link        *rpcrdma.ExtensionConn
	grantorConn *delegation.Conn
}

// attachConn returns the handler for a new connection
// (rpcrdma.ExtensionConfig).
func (k *Keeper) attachConn(l *rpcrdma.ExtensionConn) rpcrdma.ExtensionHandler {
	if !l.Extensions().Delegation {
		return ignoringHandler{}
	}
	words, err := delegation.NewRegion(l.Counters())
	if err != nil {
		panic(err) // cannot happen: the length comes from Config.Slots, already checked
	}
	c := &conn{keeper: k, link: l}
	c.grantorConn = k.grantor.Attach(words, l.Extensions().Immediate, fairshare.PartyOf(l.RemoteAddr()).String(), c)
	return c
}

// Immediate handles the return of a delegation.
func (c *conn) Immediate(word [8]byte) {
	c.keeper.applyEffects(c.keeper.grantor.Immediate(c.grantorConn, word))
}

// Closed ends all grants on the connection. A client that closes its connection
// gracefully has dropped its caches first. A client that aborts the connection
// has not, and neither has a client whose process dies: its kernel continues to
// use its cache.
func (c *conn) Closed(cause error) {
	if errors.Is(cause, rdma.ErrClosed) || errors.Is(cause, rpcrdma.ErrBound) {
		c.keeper.applyEffects(c.keeper.grantor.Dismiss(c.grantorConn, c.keeper.currentTime()))
		return
	}
	c.keeper.applyEffects(c.keeper.grantor.Disconnect(c.grantorConn, errors.Is(cause, io.EOF), c.keeper.currentTime()))
}

// postRecall posts a recall.
func (c *conn) postRecall(m delegation.Immediate) {
	id := uint64(m.Slot)<<32 | uint64(m.Generation)
	err := c.link.PostImmediate(m.Bytes(), c, id)
	if err != nil && !errors.Is(err, rdma.ErrClosed) {
		c.link.Abort(err) // the Grantor counts posted recalls as the ExtensionConn does
	}
}

// Complete records that a recall has been sent (rdma.Completer).
func (c *conn) Complete(done rdma.Completion) {
	if done.Err == nil {
		m := delegation.Immediate{Kind: delegation.KindRecall, Slot: uint32(done.ID >> 32), Generation: uint32(done.ID)}
		c.keeper.grantor.Sent(delegation.Recall{Conn: c.grantorConn, Immediate: m}, c.keeper.currentTime())
		c.keeper.wakeRun()
	}
}

// An ignoringHandler handles connections that have Immediate Data, but no
// counters.
type ignoringHandler struct{}

func (ignoringHandler) Immediate([8]byte) {}
func (ignoringHandler) Closed(error)      {}

// connOf returns the connection on which a call arrived, or nil if it has no
// counters.
func (k *Keeper) connOf(p *oncrpc.Peer) *delegation.Conn {
	if p == nil {
		return nil
	}
	return k.connOfLink(rpcrdma.ExtensionConnOf(p))
}

func (k *Keeper) connOfLink(l *rpcrdma.ExtensionConn) *delegation.Conn {
	if l == nil {
		return nil
	}
	if c, ok := l.Handler().(*conn); ok && c.keeper == k {
		return c.grantorConn
	}
	return nil
}

// applyEffects performs the Grantor's effects. It does not wait for clients.
func (k *Keeper) applyEffects(fx delegation.Effects) {
	for _, o := range fx.Ended {
		o.(*heldObject).returnObject()
	}
	if len(fx.Ended) > 0 {
		select {
		case k.grantEnded <- struct{}{}:
		default: // a waiting Drain already has a pending wakeup
		}
	}
	for _, r := range fx.Recalls {
		r.Conn.Owner.(*conn).postRecall(r.Immediate)
	}
	for _, c := range fx.Cuts {
		c.Conn.Owner.(*conn).link.Abort(c.Err)
	}
	k.wakeRun()
}
