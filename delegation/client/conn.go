package client

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A conn is one connection and the delegations held on it.
type conn struct {
	set        *Set
	attachment *Attachment
	id         uint64 // number of the Attachment's connection
	link       *rpcrdma.ExtensionConn
	holder     *delegation.Holder

	pausedUntil atomic.Int64 // the client sends no ACQUIRE before this time, in nanoseconds
	lease       atomic.Int64 // latest lease time, in nanoseconds

	mu         sync.Mutex
	closed     bool
	pauseCount uint64        // latest known value of Set.pauses
	timer      *time.Timer   // calls handleTimer; nil until first needed
	timerRuns  bool          // timer is running
	timerDue   time.Duration // when timer fires, if running
}

func newConn(l *Attachment, link *rpcrdma.ExtensionConn) *conn {
	c := &conn{
		set: l.set, attachment: l, id: l.lastID.Add(1), link: link,
		holder: delegation.NewHolder(link.Peer().CounterSlots),
	}
	c.lease.Store(int64(assumedLease))
	c.pauseCount = l.set.pauses()
	return c
}

// A heldDelegation is an Object's delegation.
type heldDelegation struct {
	conn       *conn
	delegation *delegation.Delegation
	object     *Object
	since      time.Duration

	// object.mu guards the following fields.
	countsUse bool // the Holder counts a use
	opening   bool // the operation that begins the use is in flight
}

// Immediate handles a recall (rpcrdma.ExtensionHandler).
func (c *conn) Immediate(word [8]byte) {
	fx, err := c.holder.Immediate(word)
	if err != nil {
		c.abortForViolation(err)
		return
	}
	c.applyPosts(fx)
}

// Closed drops all delegations held on the connection
// (rpcrdma.ExtensionHandler).
func (c *conn) Closed(error) {
	c.attachment.current.CompareAndSwap(c, nil)
	c.mu.Lock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.applyPosts(c.holder.Disconnect())
}

// abortForViolation aborts the connection to a server that violates the
// protocol. The Set requests no delegations from then on.
func (c *conn) abortForViolation(err error) {
	if c.set.violated.CompareAndSwap(false, true) {
		c.set.cfg.Log.Warn("the server violates the delegation protocol: this client requests no more delegations", "err", err)
	}
	c.link.Abort(err)
}

// applyPosts performs the effects that the Holder returned.
func (c *conn) applyPosts(fx delegation.Posts) {
	for _, m := range fx.Returns {
		if err := c.link.PostImmediate(m.Bytes(), nil, 0); err != nil {
			c.link.Abort(err) // the connection may already be closed
		}
	}
	if len(fx.Drops) > 0 {
		c.dropHoldings(fx.Drops)
	}
}

// dropHoldings detaches delegations immediately, and calls Config.Drop for
// their owners.
func (c *conn) dropHoldings(drops []*delegation.Delegation) {
	ended := make([]*heldDelegation, len(drops))
	for i, d := range drops {
		c.mu.Lock()
		ended[i] = d.Owner.(*heldDelegation)
		c.mu.Unlock()
		ended[i].endHolding(c.holder.Recalled(d))
	}
	c.set.background.Go(func() {
		for _, k := range ended {
			c.set.cfg.Drop(k.object, sync.OnceFunc(func() {
				k.object.finishDrop()
				c.applyPosts(c.holder.Dropped(k.delegation))
			}))
		}
	})
}
