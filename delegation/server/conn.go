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
	k    *Keeper
	link *rpcrdma.ExtensionConn
	conn *delegation.Conn
}

// attach begins a new connection (rpcrdma.ExtensionConfig).
func (k *Keeper) attach(l *rpcrdma.ExtensionConn) rpcrdma.ExtensionHandler {
	if !l.Extensions().Delegation {
		return bare{}
	}
	words, err := delegation.NewRegion(l.Counters())
	if err != nil {
		panic(err) // cannot happen: the length comes from Config.Slots, already checked
	}
	c := &conn{k: k, link: l}
	c.conn = k.g.Attach(words, l.Extensions().Immediate, fairshare.PartyOf(l.RemoteAddr()).String(), c)
	return c
}

// Immediate handles the return of a delegation.
func (c *conn) Immediate(word [8]byte) { c.k.do(c.k.g.Immediate(c.conn, word)) }

// Closed ends all that the client holds on the connection. A client that closes
// its connection in good order has dropped its caches first. A client that
// aborts the connection has not, and neither has a client whose process dies:
// its kernel continues to use its cache.
func (c *conn) Closed(cause error) {
	if errors.Is(cause, rdma.ErrClosed) || errors.Is(cause, rpcrdma.ErrBound) {
		c.k.do(c.k.g.Dismiss(c.conn, c.k.now()))
		return
	}
	c.k.do(c.k.g.Disconnect(c.conn, errors.Is(cause, io.EOF), c.k.now()))
}

// recall posts a recall.
func (c *conn) recall(m delegation.Immediate) {
	id := uint64(m.Slot)<<32 | uint64(m.Generation)
	err := c.link.PostImmediate(m.Bytes(), c, id)
	if err != nil && !errors.Is(err, rdma.ErrClosed) {
		c.link.Abort(err) // the Grantor counts posted recalls as the ExtensionConn does
	}
}

// Complete notes that a recall has been sent (rdma.Completer).
func (c *conn) Complete(done rdma.Completion) {
	if done.Err == nil {
		m := delegation.Immediate{Kind: delegation.KindRecall, Slot: uint32(done.ID >> 32), Generation: uint32(done.ID)}
		c.k.g.Sent(delegation.Recall{Conn: c.conn, Immediate: m}, c.k.now())
		c.k.hurry()
	}
}

// bare handles connections that have Immediate Data, but no counters.
type bare struct{}

func (bare) Immediate([8]byte) {}
func (bare) Closed(error)      {}

// conn returns the connection on which a call arrived; nil if that connection
// has no counters.
func (k *Keeper) conn(p *oncrpc.Peer) *delegation.Conn {
	if p == nil {
		return nil
	}
	return k.of(rpcrdma.ExtensionConnOf(p))
}

func (k *Keeper) of(l *rpcrdma.ExtensionConn) *delegation.Conn {
	if l == nil {
		return nil
	}
	if c, ok := l.Handler().(*conn); ok && c.k == k {
		return c.conn
	}
	return nil
}

// do carries out the Grantor's effects. It does not wait for clients.
func (k *Keeper) do(fx delegation.Effects) {
	for _, lien := range fx.Ended {
		if l, ok := lien.(*lease); ok {
			k.leases.leave(l)
		}
	}
	if len(fx.Ended) > 0 {
		select {
		case k.ended <- struct{}{}:
		default: // a waiting Drain has a wakeup pending already
		}
	}
	for _, r := range fx.Recalls {
		r.Conn.Owner.(*conn).recall(r.Immediate)
	}
	for _, c := range fx.Cuts {
		c.Conn.Owner.(*conn).link.Abort(c.Err)
	}
	for _, ch := range fx.Ready {
		ch.Waker.(*Change).wake()
	}
	k.hurry()
}
