package client

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A conn is one connection and the delegations held on that connection.
type conn struct {
	set  *Set
	line *Attachment
	id   uint64 // counts the Attachment's connections
	link *rpcrdma.ExtensionConn
	h    *delegation.Holder

	quiet atomic.Int64 // the client asks for nothing before this time, in nanoseconds
	lease atomic.Int64 // length of the latest lease, in nanoseconds

	mu    sync.Mutex
	over  bool
	pause uint64        // latest known value of Set.pauses
	timer *time.Timer   // runs until the next look at the lease; nil: not yet made
	armed bool          // timer is running
	at    time.Duration // when the timer fires, if running
}

func newConn(l *Attachment, link *rpcrdma.ExtensionConn) *conn {
	c := &conn{
		set: l.set, line: l, id: l.last.Add(1), link: link,
		h: delegation.NewHolder(link.Peer().CounterSlots),
	}
	c.lease.Store(int64(lateLease))
	c.pause = l.set.pauses()
	return c
}

// A holding is a delegation of an Object.
type holding struct {
	c     *conn
	d     *delegation.Delegation
	o     *Object
	since time.Duration

	// The following are guarded by o.mu.
	used    bool // the Holder counts a use
	opening bool // the operation that begins the use is under way
}

// Immediate handles a recall (rpcrdma.ExtensionHandler).
func (c *conn) Immediate(word [8]byte) {
	fx, err := c.h.Immediate(word)
	if err != nil {
		c.fault(err)
		return
	}
	c.do(fx)
}

// Closed ends all delegations held on the connection
// (rpcrdma.ExtensionHandler).
func (c *conn) Closed(error) {
	c.line.now.CompareAndSwap(c, nil)
	c.mu.Lock()
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.do(c.h.Disconnect())
}

// fault aborts the connection to a server that breaks the rules. The Set asks
// for no delegations from then on.
func (c *conn) fault(err error) {
	if c.set.spoilt.CompareAndSwap(false, true) {
		c.set.cfg.Log.Warn("the server violates the delegation protocol: this client requests no more delegations", "err", err)
	}
	c.link.Abort(err)
}

// do carries out the effects that the Holder returned.
func (c *conn) do(fx delegation.Posts) {
	for _, m := range fx.Returns {
		if err := c.link.PostImmediate(m.Bytes(), nil, 0); err != nil {
			c.link.Abort(err) // the connection may have ended already
		}
	}
	if len(fx.Drops) > 0 {
		c.drop(fx.Drops)
	}
}

// drop ends holdings at once, and calls Config.Drop for their owners.
func (c *conn) drop(drops []*delegation.Delegation) {
	ended := make([]*holding, len(drops))
	for i, d := range drops {
		c.mu.Lock()
		ended[i] = d.Owner.(*holding)
		c.mu.Unlock()
		ended[i].end(c.h.Recalled(d))
	}
	c.set.running.Go(func() {
		for _, k := range ended {
			c.set.cfg.Drop(k.o, sync.OnceFunc(func() {
				k.o.dropped()
				c.do(c.h.Dropped(k.d))
			}))
		}
	})
}
