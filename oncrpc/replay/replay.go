package replay

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A Config configures a Cache.
type Config struct {
	// Keep reports whether the reply to a call of procedure p is kept. It must
	// return true for every call that must not be executed twice, unless the
	// program itself sees to that, as the sessions of NFS version 4.1 do. It
	// must not be nil. Any other call costs only this function call. msg is the
	// call message from its XID on, for programs whose procedures do not say
	// enough, such as COMPOUND. The message is unchecked.
	Keep func(p rpcmsg.Procedure, msg []byte) bool

	// MaxMemory bounds the bytes of the replies of all clients, including 256
	// for each reply's entry; 0 means 32 MiB.
	MaxMemory int64

	// MaxAge is the least time that a reply is kept if there is memory; 0 means
	// two minutes. Later calls remove older replies, some at a time.
	MaxAge time.Duration
}

// A Cache is a Service in front of another Service. It answers a retransmitted
// call with the reply to its first transmission, instead of a second execution.
// RFC 5531, Section 4, lets a server do so by the XID, and RFC 1813, Section
// 4.5, calls it the duplicate request cache. All transports and connections
// must share one Cache, because a client may reconnect on another transport.
//
//	call ── Keep? ──no──────────────────────────────▶ next
//	         │yes                                       ▲
//	         ├─ new ───────── executed, reply kept ─────┘
//	         ├─ executed ──── the reply that was kept
//	         └─ running ───── waits for the first one's reply
//
// Two calls are the same if they have the same client address (with any port),
// XID, program, version, procedure, length, and checksum of their first 512
// bytes, which include the credential. If the caller is verified, the checksum
// has its flavour and name in place of the credential.
//
// A call whose reply is kept does not end with its connection, because the
// client will ask for its outcome again. The context of such calls is the
// cache's, and Close ends it.
//
// The cache does not keep a reply that is longer than 1 KiB, has a data item,
// or is marked NoReplay by the program. In NFS only READ, READLINK and the
// listings can have such long replies, and they may be executed any number of
// times.
//
// Memory is bounded. Above the bound, the party that takes most of it (an IPv4
// address or 64 bits of an IPv6 address) loses its oldest reply. Hence no
// client can displace the replies of all others. Kept replies are lost when the
// process ends.
type Cache struct {
	next oncrpc.Service
	cfg  Config
	seed maphash.Seed

	life  context.Context // of calls whose replies are kept
	close context.CancelFunc

	mu     sync.Mutex
	calls  map[cacheKey]*entry // executed, or running
	store  store               // of the executed calls
	counts Stats
	unused sync.Pool // of *entry
}

// Stats is the state of a Cache and its counters.
type Stats struct {
	Replies int   // kept now
	Bytes   int64 // bytes that the kept replies take

	Executed  uint64 // calls of kept procedures
	Replayed  uint64 // retries answered with a kept reply
	Joined    uint64 // retries answered together with their first, running transmission
	Forgotten uint64 // replies removed early to make room
}

// A retry is a retransmitted call whose first transmission is running.
type retry struct {
	rep      *oncrpc.Reply
	maxReply int
	end      chan retryEnd // room for one
}

// A retryEnd is the result of a retry.
type retryEnd int

const (
	answered retryEnd = iota // the retry has its reply
	again                    // the first call's reply cannot be copied
	givenUp                  // a newer retry took its place, or its connection has ended
)

// New returns a Cache in front of next.
func New(next oncrpc.Service, cfg Config) *Cache {
	if cfg.MaxMemory == 0 {
		cfg.MaxMemory = defaultMemory
	}
	if cfg.MaxAge == 0 {
		cfg.MaxAge = defaultAge
	}
	c := &Cache{next: next, cfg: cfg, seed: maphash.MakeSeed(), calls: make(map[cacheKey]*entry)}
	c.store.init()
	c.life, c.close = context.WithCancel(context.Background())
	return c
}

var _ oncrpc.Service = (*Cache)(nil)

// Close ends the context of the running calls. Call it after the shutdown of
// the transports, if that has timed out.
func (c *Cache) Close() { c.close() }

// Resumes returns true (see function Resumes).
func (c *Cache) Resumes() bool { return true }

// Stats returns the state of c and its counters.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.counts
	s.Replies, s.Bytes = c.store.replies, c.store.bytes
	return s
}

// Serve answers a call (Service).
func (c *Cache) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	p, ok := rpcmsg.ProcedureOf(req.Msg)
	if !ok || !c.cfg.Keep(p, req.Msg) {
		return c.next.Serve(ctx, req, rep)
	}
	key := c.keyOf(req, p)
	for {
		e, retry := c.find(key, req, rep)
		switch {
		case e == nil:
			return true
		case retry == nil:
			return c.execute(e, req, rep)
		}
		if end := c.await(ctx, e, retry); end != again {
			return end == answered
		}
	}
}

// find looks a call up. For a new call, find returns a new entry. For a running
// call, find returns the entry and a retry to wait with. For an executed call,
// find puts the reply into rep and returns no entry.
func (c *Cache) find(key cacheKey, req *oncrpc.Request, rep *oncrpc.Reply) (*entry, *retry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(time.Now())
	e := c.calls[key]
	switch {
	case e == nil:
		e = c.enter(key)
		c.counts.Executed++
		return e, nil
	case e.party != nil:
		c.counts.Replayed++
		answerAgain(rep, e.reply, key.xid, req.MaxReply)
		return nil, nil
	}
	// Only the newest retry waits: its connection is the most likely one to
	// exist, and retries then never take more goroutines than calls do.
	e.finish(givenUp)
	e.retry = &retry{rep: rep, maxReply: req.MaxReply, end: make(chan retryEnd, 1)}
	return e, e.retry
}

// await waits for the end of a retry, or of its connection.
func (c *Cache) await(ctx context.Context, e *entry, r *retry) retryEnd {
	select {
	case end := <-r.end:
		return end
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.retry == r {
		e.finish(givenUp)
	}
	return <-r.end
}

// execute executes a call and keeps its reply.
func (c *Cache) execute(e *entry, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	defer func() { c.finish(e, rep, answer) }()
	return c.next.Serve(c.life, req, rep)
}

// finish gives the reply to a waiting retry, and keeps the reply if permitted.
func (c *Cache) finish(e *entry, rep *oncrpc.Reply, answer bool) {
	kept := answer && rep.Item == nil && rep.Len() <= maxReply
	if kept { // nobody else looks at the reply of a running call
		e.reply = append(append(e.reply[:0], rep.Head...), rep.Tail...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !kept {
		e.finish(again)
		c.forget(e)
		return
	}
	if r := e.retry; r != nil {
		c.counts.Joined++
		answerAgain(r.rep, e.reply, e.key.xid, r.maxReply)
		e.finish(answered)
	}
	if rep.NoReplay {
		c.forget(e)
		return
	}
	e.since = time.Now()
	c.store.add(e)
	for c.store.bytes > c.cfg.MaxMemory {
		c.counts.Forgotten++
		c.drop(c.store.parties[0].oldest)
	}
}

// answerAgain makes r the reply to an earlier call. The reply may exceed room if
// the client asked for less this time.
func answerAgain(r *oncrpc.Reply, reply []byte, xid uint32, room int) {
	if len(reply) > room {
		r.Head = rpcmsg.AppendAccepted(r.Head, xid, rpcmsg.SystemErr)
		return
	}
	r.Head = append(r.Head, reply...)
}

// expire removes some of the expired replies, the oldest first. The caller must
// hold c.mu, as for the methods below.
func (c *Cache) expire(now time.Time) {
	for range expires {
		e := c.store.oldest()
		if e == nil || now.Sub(e.since) < c.cfg.MaxAge {
			return
		}
		c.drop(e)
	}
}

// enter adds a call that will be executed.
func (c *Cache) enter(key cacheKey) *entry {
	e, _ := c.unused.Get().(*entry)
	if e == nil {
		e = new(entry)
	}
	e.key = key
	c.calls[key] = e
	return e
}

// drop forgets a call with a kept reply.
func (c *Cache) drop(e *entry) {
	c.store.remove(e)
	c.forget(e)
}

// forget removes a call and recycles its memory.
func (c *Cache) forget(e *entry) {
	delete(c.calls, e.key)
	*e = entry{reply: e.reply[:0]}
	c.unused.Put(e)
}
