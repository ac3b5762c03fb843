package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// Chunk buffers are large, and a peer decides how long they are held. A call
// reserves all the memory that it can need, for its arguments and its reply,
// before any buffer is allocated. A call that holds memory therefore never
// waits for more.

// partyShares are a party's shares of the server's memory, for chunks and for delegation counters.
// Counters are separate because they are held for as long as their connection exists, and calls
// would wait for them.
type partyShares struct {
	*fairshare.Part
	counters *fairshare.Part
	queue    *partyQueue // calls waiting to be served
}

// counterMemory returns the memory for delegation counters. A party always gets
// enough for one connection.
func (s *Server) counterMemory() *fairshare.Memory {
	one := int64(0)
	if x := s.Extensions; x != nil {
		one = int64(x.Counters) * rdma.WordLen
	}
	return fairshare.NewMemory(max(s.cfg.maxMemory, one), max(s.cfg.partyShare()/counterShare, one), nil) // no call waits for it
}

func (s *Server) newShares() partyShares {
	return partyShares{s.memory.Part(), s.counters.Part(), new(partyQueue)}
}

// reserveMemory starts a call if there is memory for it. It runs on the connection's reader and
// does not wait: a call that must wait is queued after its connection's other waiting calls.
func (c *conn) reserveMemory(cl *call) {
	need := cl.memoryNeed()
	if need == 0 || c.party.Own.TryAcquire(need) {
		cl.reserved = need
		if len(cl.plan.reads) > 0 {
			cl.pullChunks()
		} else if k := c.reader.kindToServe(cl); k != nil {
			c.serveShort(cl, k)
		} else {
			c.srv.calls.submit(cl)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting.push(cl)
	if !c.hasWaiter {
		c.hasWaiter = true
		go c.reserveWaiting()
	}
}

// reserveWaiting reserves memory for the waiting calls, in order. A connection has at most one such
// goroutine, and so one slot in the queue for memory.
func (c *conn) reserveWaiting() {
	for {
		c.mu.Lock()
		cl := c.waiting.pop()
		c.hasWaiter = cl != nil
		c.mu.Unlock()
		if cl == nil {
			return
		}
		if err := c.party.Own.Acquire(c.ctx, cl.memoryNeed()); err != nil {
			cl.releaseAll() // the connection has ended
			continue
		}
		cl.reserved = cl.memoryNeed()
		cl.pullChunks()
	}
}

// releaseMemory returns n bytes of the call's memory.
func (cl *call) releaseMemory(n int64) {
	if n > 0 {
		cl.reserved -= n
		cl.conn.party.Own.Release(n)
	}
}
