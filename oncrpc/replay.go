package oncrpc

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A ReplayConfig configures a ReplayCache.
type ReplayConfig struct {
	// Keep reports whether the replies of a procedure are kept. It must return
	// true for every procedure that must not be executed twice. It must not be
	// nil. A call of any other procedure costs only this function call.
	Keep func(prog, vers, proc uint32) bool

	// MaxMemory bounds the bytes of the replies of all clients, including 256
	// for each reply's entry; 0 means 32 MiB.
	MaxMemory int64

	// MaxAge is the least time that a reply is kept if there is memory; 0 means
	// two minutes. Later calls remove older replies, some at a time.
	MaxAge time.Duration
}

// A ReplayCache is a Service in front of another Service. It answers a
// retransmitted call with the reply to its first transmission, instead of a
// second execution. RFC 5531, Section 4, lets a server do so by the XID, and
// RFC 1813, Section 4.5, calls it the duplicate request cache. All transports
// and connections must share one ReplayCache, because a client may reconnect on
// another transport.
//
//	call ── Keep? ──no──────────────────────────────▶ next
//	         │yes                                       ▲
//	         ├─ new ───────── executed, reply kept ─────┘
//	         ├─ executed ──── the reply that was kept
//	         └─ running ───── waits for the first one's reply
//
// Two calls are the same if they have the same client address (with any port),
// XID, program, version, procedure, length, and checksum of their first 512
// bytes, which include the credential.
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
type ReplayCache struct {
	next Service
	cfg  ReplayConfig
	seed maphash.Seed

	life  context.Context // of calls whose replies are kept
	close context.CancelFunc

	mu     sync.Mutex
	calls  map[replayKey]*replayEntry // executed, or running
	store  replayStore                // of the executed calls
	counts ReplayStats
	unused sync.Pool // of *replayEntry
}

// ReplayStats is the state of a ReplayCache and its counters.
type ReplayStats struct {
	Replies int   // kept now
	Octets  int64 // bytes that the kept replies take

	Executed  uint64 // calls of kept procedures
	Replayed  uint64 // retries answered with a kept reply
	Joined    uint64 // retries answered together with their first, running transmission
	Forgotten uint64 // replies removed early to make room
}

// A replayRetry is a retransmitted call whose first transmission is running.
type replayRetry struct {
	rep      *Reply
	maxReply int
	end      chan replayEnd // room for one
}

// A replayEnd is the result of a retry.
type replayEnd int

const (
	replayAnswered replayEnd = iota // the retry has its reply
	replayAgain                     // the first call's reply cannot be copied
	replayGivenUp                   // a newer retry took its place, or its connection has ended
)

// NewReplayCache returns a ReplayCache in front of next.
func NewReplayCache(next Service, cfg ReplayConfig) *ReplayCache {
	if cfg.MaxMemory == 0 {
		cfg.MaxMemory = defaultReplayMemory
	}
	if cfg.MaxAge == 0 {
		cfg.MaxAge = defaultReplayAge
	}
	c := &ReplayCache{next: next, cfg: cfg, seed: maphash.MakeSeed(), calls: make(map[replayKey]*replayEntry)}
	c.store.init()
	c.life, c.close = context.WithCancel(context.Background())
	return c
}

var _ Service = (*ReplayCache)(nil)

// Close ends the context of the running calls. Call it after the shutdown of
// the transports, if that has timed out.
func (c *ReplayCache) Close() { c.close() }

// Resumes returns true (see function Resumes).
func (c *ReplayCache) Resumes() bool { return true }

// Stats returns the state of c and its counters.
func (c *ReplayCache) Stats() ReplayStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.counts
	s.Replies, s.Octets = c.store.replies, c.store.octets
	return s
}

// Serve answers a call (Service).
func (c *ReplayCache) Serve(ctx context.Context, req *Request, rep *Reply) (answer bool) {
	p, ok := procedureOf(req.Msg)
	if !ok || !c.cfg.Keep(p.prog, p.vers, p.proc) {
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
		if end := c.await(ctx, e, retry); end != replayAgain {
			return end == replayAnswered
		}
	}
}

// find looks a call up. For a new call, find returns a new entry. For a running
// call, find returns the entry and a retry to wait with. For an executed call,
// find puts the reply into rep and returns no entry.
func (c *ReplayCache) find(key replayKey, req *Request, rep *Reply) (*replayEntry, *replayRetry) {
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
		rep.replay(e.reply, key.xid, req.MaxReply)
		return nil, nil
	}
	// Only the newest retry waits: its connection is the most likely one to
	// exist, and retries then never take more goroutines than calls do.
	e.finish(replayGivenUp)
	e.retry = &replayRetry{rep: rep, maxReply: req.MaxReply, end: make(chan replayEnd, 1)}
	return e, e.retry
}

// await waits for the end of a retry, or of its connection.
func (c *ReplayCache) await(ctx context.Context, e *replayEntry, r *replayRetry) replayEnd {
	select {
	case end := <-r.end:
		return end
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.retry == r {
		e.finish(replayGivenUp)
	}
	return <-r.end
}

// execute executes a call and keeps its reply.
func (c *ReplayCache) execute(e *replayEntry, req *Request, rep *Reply) (answer bool) {
	defer func() { c.finish(e, rep, answer) }()
	return c.next.Serve(c.life, req, rep)
}

// finish gives the reply to a waiting retry, and keeps the reply if permitted.
func (c *ReplayCache) finish(e *replayEntry, rep *Reply, answer bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !answer || rep.Item != nil || rep.Len() > maxReplay {
		e.finish(replayAgain)
		c.forget(e)
		return
	}
	e.reply = append(append(e.reply[:0], rep.Head...), rep.Tail...)
	if r := e.retry; r != nil {
		c.counts.Joined++
		r.rep.replay(e.reply, e.key.xid, r.maxReply)
		e.finish(replayAnswered)
	}
	if rep.NoReplay {
		c.forget(e)
		return
	}
	e.since = time.Now()
	c.store.add(e)
	for c.store.octets > c.cfg.MaxMemory {
		c.counts.Forgotten++
		c.drop(c.store.parties[0].oldest)
	}
}

// replay makes rep the reply to an earlier call. The reply may exceed room if
// the client asked for less this time.
func (r *Reply) replay(reply []byte, xid uint32, room int) {
	if len(reply) > room {
		r.Head = rpcmsg.AppendAccepted(r.Head, xid, rpcmsg.SystemErr)
		return
	}
	r.Head = append(r.Head, reply...)
}

// expire removes some of the expired replies, the oldest first. The caller must
// hold c.mu, as for the methods below.
func (c *ReplayCache) expire(now time.Time) {
	for range replayExpires {
		e := c.store.oldest()
		if e == nil || now.Sub(e.since) < c.cfg.MaxAge {
			return
		}
		c.drop(e)
	}
}

// enter adds a call that will be executed.
func (c *ReplayCache) enter(key replayKey) *replayEntry {
	e, _ := c.unused.Get().(*replayEntry)
	if e == nil {
		e = new(replayEntry)
	}
	e.key = key
	c.calls[key] = e
	return e
}

// drop forgets a call with a kept reply.
func (c *ReplayCache) drop(e *replayEntry) {
	c.store.remove(e)
	c.forget(e)
}

// forget removes a call and recycles its memory.
func (c *ReplayCache) forget(e *replayEntry) {
	delete(c.calls, e.key)
	*e = replayEntry{reply: e.reply[:0]}
	c.unused.Put(e)
}
