package client

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A conn is one connection with what is held on it.
type conn struct {
	set  *Set
	line *Attachment
	id   uint64 // of the line's connections
	link *rpcrdma.ExtensionConn
	h    *delegation.Holder

	quiet atomic.Int64 // nothing is asked for before that time, in nanoseconds
	lease atomic.Int64 // the length of the one that came last, in nanoseconds

	mu    sync.Mutex
	over  bool
	pause uint64        // of Set.pauses, the last that is known
	timer *time.Timer   // until the next look at the lease; nil: there was none
	armed bool          // timer runs
	at    time.Duration // when it ends, if it runs
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

	// Under o.mu.
	used    bool // the Holder counts a use
	opening bool // an operation that begins it is under way
}

// Immediate takes a recall (rpcrdma.ExtensionHandler).
func (c *conn) Immediate(octets [8]byte) {
	fx, err := c.h.Immediate(octets)
	if err != nil {
		c.fault(err)
		return
	}
	c.do(fx)
}

// Closed ends all that is held on the connection (rpcrdma.ExtensionHandler).
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

// fault ends the connection of a server that does not keep to the rules, for good as
// far as delegation goes.
func (c *conn) fault(err error) {
	if c.set.spoilt.CompareAndSwap(false, true) {
		c.set.cfg.Log.Warn("the server breaks the rules of delegation: nothing more is asked for", "err", err)
	}
	c.link.Abort(err)
}

// do does what the Holder wants done.
func (c *conn) do(fx delegation.Posts) {
	for _, m := range fx.Returns {
		if err := c.link.PostImmediate(m.Octets(), nil, 0); err != nil {
			c.link.Abort(err) // it may have ended by itself
		}
	}
	if len(fx.Drops) > 0 {
		c.drop(fx.Drops)
	}
}

// drop ends holdings at once, and has their owners told.
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
