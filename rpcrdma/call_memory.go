package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// Buffers for chunks are large, and a peer decides how long they are held. A
// call reserves all the memory that it can need, for its arguments and its
// reply, before any buffer is lent. A call that holds memory therefore never
// waits for more.

// parts are a party's shares of the server's memory: of the memory for chunks,
// and of the memory for delegation counters. Counters are separate because they
// are held as long as their connection lives, and calls would wait for them.
type parts struct {
	*fairshare.Part
	counters *fairshare.Part
	queue    *queue // calls waiting to be served
}

// counterMemory returns the memory for delegation counters. A party always has
// enough for one connection.
func (s *Server) counterMemory() *fairshare.Memory {
	one := int64(0)
	if x := s.Extensions; x != nil {
		one = int64(x.Counters) * rdma.WordLen
	}
	return fairshare.NewMemory(max(s.cfg.maxMemory, one), max(s.cfg.share()/counterShare, one), nil) // nobody waits for it
}

func (s *Server) parts() parts { return parts{s.memory.Part(), s.counters.Part(), new(queue)} }

// reserve starts a call if there is memory for it. It runs on the connection's
// reader and does not wait: a call that must wait is queued behind the waiting
// calls of its connection.
func (c *conn) reserve(cl *call) {
	need := cl.need()
	if need == 0 || c.party.Own.TryAcquire(need) {
		cl.held = need
		if len(cl.plan.reads) > 0 {
			cl.pull()
		} else if k := c.reader.takes(cl); k != nil {
			c.serveShort(cl, k)
		} else {
			c.srv.calls.submit(cl)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting.push(cl)
	if !c.waiter {
		c.waiter = true
		go c.wait()
	}
}

// wait reserves memory for the waiting calls, in order. A connection has at
// most one of these goroutines, and so one place in the queue for memory.
func (c *conn) wait() {
	for {
		c.mu.Lock()
		cl := c.waiting.pop()
		c.waiter = cl != nil
		c.mu.Unlock()
		if cl == nil {
			return
		}
		if err := c.party.Own.Acquire(c.ctx, cl.need()); err != nil {
			cl.end() // the connection has ended
			continue
		}
		cl.held = cl.need()
		cl.pull()
	}
}

// unreserve returns n bytes of the call's memory.
func (cl *call) unreserve(n int64) {
	if n > 0 {
		cl.held -= n
		cl.conn.party.Own.Release(n)
	}
}
