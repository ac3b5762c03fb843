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

// attach begins with a new connection (rpcrdma.ExtensionConfig).
func (k *Keeper) attach(l *rpcrdma.ExtensionConn) rpcrdma.ExtensionHandler {
	if !l.Extensions().Delegation {
		return bare{}
	}
	words, err := delegation.NewRegion(l.Counters())
	if err != nil {
		panic(err) // the length is that of Config.Slots, which has been checked
	}
	c := &conn{k: k, link: l}
	c.conn = k.g.Attach(words, l.Extensions().Immediate, fairshare.PartyOf(l.RemoteAddr()).String(), c)
	return c
}

// Immediate takes what the client has given back.
func (c *conn) Immediate(octets [8]byte) { c.k.do(c.k.g.Immediate(c.conn, octets)) }

// Closed is the end of all that the client holds. A client that closes its connection
// in good order has let go of everything before; one that aborts it has not, nor has one
// whose process dies: its kernel goes on with what it was told.
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
	err := c.link.PostImmediate(m.Octets(), c, id)
	if err != nil && !errors.Is(err, rdma.ErrClosed) {
		c.link.Abort(err) // the Grantor counts as the ExtensionConn does
	}
}

// Complete is told that a recall has been sent (rdma.Completer).
func (c *conn) Complete(done rdma.Completion) {
	if done.Err == nil {
		m := delegation.Immediate{Kind: delegation.KindRecall, Slot: uint32(done.ID >> 32), Generation: uint32(done.ID)}
		c.k.g.Sent(delegation.Recall{Conn: c.conn, Immediate: m}, c.k.now())
		c.k.hurry()
	}
}

// bare is for connections that have Immediate Data, and no counters that it could be
// about.
type bare struct{}

func (bare) Immediate([8]byte) {}
func (bare) Closed(error)      {}

// conn returns the connection that a call came by; nil where that has no counters.
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

// do does what the Grantor wants done. It waits for nothing.
func (k *Keeper) do(fx delegation.Effects) {
	for _, lien := range fx.Ended {
		if l, ok := lien.(*lease); ok {
			k.leases.leave(l)
		}
	}
	if len(fx.Ended) > 0 {
		select {
		case k.ended <- struct{}{}:
		default: // whoever waits will look
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
