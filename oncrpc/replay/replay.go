package replay

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A Config configures a Cache.
type Config struct {
	// Keep reports whether the reply to a call of procedure p is kept. It must return
	// true for every call that must not be executed twice, unless the program itself
	// ensures that, as NFSv4.1 sessions do. It must not be nil. Any other call costs only
	// this function call. msg is the call message from its XID on, for procedures such as
	// COMPOUND, whose number does not determine this. The message is unchecked.
	Keep func(p rpcmsg.Procedure, msg []byte) bool

	// MaxMemory bounds the memory for all clients' replies, in bytes, including 320 for
	// each reply's entry; 0 means 32 MiB.
	MaxMemory int64

	// MaxAge is the minimum time for which a reply is kept if there is memory; 0 means
	// two minutes. Later calls remove older replies, some at a time.
	MaxAge time.Duration
}

// A Cache is a Service in front of another Service. It replies to a retransmitted call
// with the reply to its first transmission, instead of executing it again. RFC 5531,
// Section 4, lets a server do so based on the XID, and RFC 1813, Section 4.5, calls it
// the duplicate request cache. All transports and connections must share one Cache,
// because a client may reconnect on another transport.
//
//	call ── Keep? ──no──────────────────────────────▶ next
//	         │yes                                       ▲
//	         ├─ new ───────── executed, reply kept ─────┘
//	         ├─ executed ──── the reply that was kept
//	         └─ running ───── waits for the first one's reply
//
// Two calls are alike if they have the same client address (with any port), XID, program,
// version, procedure, length, and checksum over their first 512 bytes, which include the
// credential. If the caller is verified, the checksum covers its flavor and name in place
// of the credential. Different clients on one host can make calls that are alike, because
// their XIDs are not coordinated. If two calls are alike, the second is a retransmission
// if it arrives
//
//   - on the first one's connection,
//   - between the same addresses and ports on the same transport, or
//   - on another connection, after the first one's connection has ended, or if that
//     seems to be lost: its peer has sent a FIN, or acknowledges neither
//     retransmissions nor probes (rdma.LossDetector).
//
// Any other call is executed, because it may come from another client. Sending it the
// reply to a stranger's call would acknowledge a change that was not made, and neither
// client could notice. The price is that a call is executed twice if its client has
// abandoned a connection and the local kernel has not noticed yet, or if the client
// retransmits calls on another of several connections. The second execution then usually
// fails, as a MKDIR does with NFS3ERR_EXIST. Over UDP a client keeps its port while it
// retransmits a call; another port means another client. A reply belongs to the
// connection on which its call was last received.
//
// A call whose reply is kept continues when its connection closes, because the client
// will retransmit it. Such calls use the cache's context, which Close cancels.
//
// The cache does not keep a reply that is longer than 64 KiB, has several data items, or
// is marked NoReplay by the program. In NFSv3, only READ, READLINK and the listings can
// have such long replies, and they may be executed any number of times.
//
// Memory is bounded. Beyond the bound, the party that uses most of it (an IPv4 address or
// the first 64 bits of an IPv6 address) loses its oldest reply, so no client can displace
// all other clients' replies. Kept replies are lost when the process ends.
type Cache struct {
	next oncrpc.Service
	cfg  Config
	seed maphash.Seed

	ctx    context.Context // for calls whose replies are kept
	cancel context.CancelFunc

	mu        sync.Mutex
	calls     map[cacheKey]*entry // executed or running; the newest of those that are alike
	store     replyStore          // executed calls
	counts    Stats
	entryPool sync.Pool // contains *entry
}

// Stats is a Cache's state and counters.
type Stats struct {
	Replies int   // kept replies
	Bytes   int64 // memory that the kept replies use

	Executed  uint64 // calls whose replies should be kept
	Replayed  uint64 // retries that got a kept reply
	Joined    uint64 // retries that got the reply together with their first, running transmission
	Forgotten uint64 // replies removed early in favor of others
}

// A retry is a retransmitted call whose first transmission is running.
type retry struct {
	reply  *savedReply      // set if the result is retryAnswered
	result chan retryResult // capacity 1
}

func newRetry() *retry { return &retry{result: make(chan retryResult, 1)} }

// deliverReply completes r with a copy of a reply.
func (r *retry) deliverReply(reply *savedReply) {
	r.reply = reply.clone()
	r.result <- retryAnswered
}

// A retryResult is the result of a retry.
type retryResult int

const (
	retryAnswered  retryResult = iota // the retry has its reply
	retryAgain                        // the first call's reply cannot be copied
	retryAbandoned                    // a newer retry took its place, or its connection has ended
)

// New returns a Cache in front of next.
func New(next oncrpc.Service, cfg Config) *Cache {
	if cfg.MaxMemory == 0 {
		cfg.MaxMemory = defaultMemory
	}
	if cfg.MaxAge == 0 {
		cfg.MaxAge = defaultMaxAge
	}
	c := &Cache{next: next, cfg: cfg, seed: maphash.MakeSeed(), calls: make(map[cacheKey]*entry)}
	c.store.init()
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

var _ oncrpc.Service = (*Cache)(nil)

// Close cancels the running calls' context. It should be called after the transports'
// shutdown, if that has timed out.
func (c *Cache) Close() { c.cancel() }

// Resumes returns true (see function Resumes).
func (c *Cache) Resumes() bool { return true }

// Stats returns c's state and counters.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.counts
	s.Replies, s.Bytes = c.store.replies, c.store.bytes
	return s
}

// Serve serves a call (Service).
func (c *Cache) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	p, ok := rpcmsg.ProcedureOf(req.Msg)
	if !ok || !c.cfg.Keep(p, req.Msg) {
		return c.next.Serve(ctx, req, rep)
	}
	key, from := c.keyOf(req, p), originOf(req.Peer)
	var lost []*oncrpc.Connection
	for {
		e, r, others := c.findOrAdd(key, from, lost, req, rep)
		switch {
		case others != nil:
			lost = selectLost(others)
			continue
		case e == nil:
			return true
		case r == nil:
			return c.executeCall(e, req, rep)
		}
		switch c.awaitResult(ctx, e, r) {
		case retryAnswered:
			r.reply.restoreTo(rep, key.xid, req.MaxReply)
			return true
		case retryAbandoned:
			return false
		}
	}
}

// selectLost returns the connections that are lost. The result is not nil.
func selectLost(all []*oncrpc.Connection) []*oncrpc.Connection {
	return slices.DeleteFunc(all, func(c *oncrpc.Connection) bool { return !c.IsLost() })
}

// findOrAdd looks a call up. For a new call, it returns a new entry. For a call that is
// running, or has a long reply, it returns the entry and a retry to wait for. For another
// executed call, it puts the reply into rep and returns no entry. If a call that is alike
// arrived on connections that have not ended, and lost is nil, it returns those: the
// caller determines which ones are lost, which may take a moment, and calls it again.
func (c *Cache) findOrAdd(key cacheKey, from origin, lost []*oncrpc.Connection, req *oncrpc.Request, rep *oncrpc.Reply) (*entry, *retry, []*oncrpc.Connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeExpired(time.Now())
	e := c.findOriginal(key, from, lost)
	if e == nil {
		if others := c.listConnections(key); lost == nil && others != nil {
			return nil, nil, others
		}
		c.counts.Executed++
		return c.addEntry(key, from), nil, nil
	}
	e.origin = from
	if e.party != nil {
		c.counts.Replayed++
		if e.reply.isShort() {
			e.reply.restoreTo(rep, key.xid, req.MaxReply)
			return nil, nil, nil
		}
		r := newRetry()
		r.deliverReply(&e.reply)
		return e, r, nil
	}
	// Only the newest retry waits: its connection is the most likely to exist, and so
	// there are never more waiting retries than calls.
	e.finishRetry(retryAbandoned)
	e.retry = newRetry()
	return e, e.retry, nil
}

// findOriginal returns the entry for a call's first transmission, or nil. The caller must
// hold c.mu, as for the following methods.
func (c *Cache) findOriginal(key cacheKey, from origin, lost []*oncrpc.Connection) *entry {
	for e := c.calls[key]; e != nil; e = e.alike {
		if e.origin.isSameConn(from) {
			return e
		}
	}
	for e := c.calls[key]; e != nil; e = e.alike {
		if e.origin.hasEnded() || e.origin.conn != nil && slices.Contains(lost, e.origin.conn) {
			return e
		}
	}
	return nil
}

// listConnections returns the connections of the calls with a key, or nil.
func (c *Cache) listConnections(key cacheKey) (all []*oncrpc.Connection) {
	for e := c.calls[key]; e != nil; e = e.alike {
		if e.origin.conn != nil {
			all = append(all, e.origin.conn)
		}
	}
	return all
}

// awaitResult waits for a retry's result, or until its connection ends.
func (c *Cache) awaitResult(ctx context.Context, e *entry, r *retry) retryResult {
	select {
	case end := <-r.result:
		return end
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.retry == r {
		e.finishRetry(retryAbandoned)
	}
	return <-r.result
}

// executeCall executes a call and keeps its reply. It clears Mappable, because mapped
// items could not be copied safely.
func (c *Cache) executeCall(e *entry, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	rep.Mappable = false
	defer func() { c.finishCall(e, rep, answer) }()
	return c.next.Serve(c.ctx, req, rep)
}

// finishCall delivers the reply to a waiting retry, and keeps the reply if permitted.
func (c *Cache) finishCall(e *entry, rep *oncrpc.Reply, answer bool) {
	saved := answer && canBeSaved(rep)
	if saved { // no other goroutine accesses a running call's reply
		e.reply.saveReply(rep)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !saved {
		e.finishRetry(retryAgain)
		c.removeEntry(e)
		return
	}
	if r := e.retry; r != nil {
		c.counts.Joined++
		r.deliverReply(&e.reply)
		e.retry = nil
	}
	if rep.NoReplay {
		c.removeEntry(e)
		return
	}
	e.savedAt = time.Now()
	c.store.add(e)
	for c.store.bytes > c.cfg.MaxMemory {
		c.counts.Forgotten++
		c.removeReply(c.store.parties[0].oldest)
	}
}

// removeExpired removes some of the expired replies, the oldest first.
func (c *Cache) removeExpired(now time.Time) {
	for range maxExpiredRemovals {
		e := c.store.oldestEntry()
		if e == nil || now.Sub(e.savedAt) < c.cfg.MaxAge {
			return
		}
		c.removeReply(e)
	}
}

// addEntry adds a call that will be executed. If too many calls are alike, the oldest is
// no longer found.
func (c *Cache) addEntry(key cacheKey, from origin) *entry {
	e, _ := c.entryPool.Get().(*entry)
	if e == nil {
		e = new(entry)
	}
	e.key, e.origin, e.alike = key, from, c.calls[key]
	c.calls[key] = e
	last := e
	for n := 1; last != nil && n < maxAlike; n++ {
		last = last.alike
	}
	if last != nil {
		last.alike = nil
	}
	return e
}

// removeReply removes a call with a kept reply.
func (c *Cache) removeReply(e *entry) {
	c.store.remove(e)
	c.removeEntry(e)
}

// removeEntry removes a call and recycles its memory, unless the reply is long.
func (c *Cache) removeEntry(e *entry) {
	switch first := c.calls[e.key]; {
	case first != e:
		for ; first != nil; first = first.alike {
			if first.alike == e {
				first.alike = e.alike
			}
		}
	case e.alike == nil:
		delete(c.calls, e.key)
	default:
		c.calls[e.key] = e.alike
	}
	b := e.reply.bytes[:0]
	if cap(b) > shortReply {
		b = nil
	}
	*e = entry{reply: savedReply{bytes: b}}
	c.entryPool.Put(e)
}
