package oncrpc

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A ReplayConfig says what a ReplayCache keeps.
type ReplayConfig struct {
	// Keep tells of which procedures replies are kept: those that are not
	// to be executed twice, all of them. It must not be nil. Calls of all others cost
	// this question and nothing more.
	Keep func(prog, vers, proc uint32) bool

	// MaxMemory bounds the replies of all clients, in octets, each with
	// 256 for what is known of its call; 0 means 32 MiB.
	MaxMemory int64

	// MaxAge is how long a reply is kept at least, if there is memory; 0 means
	// two minutes. Calls throw away those that are older, some at a time.
	MaxAge time.Duration
}

// A ReplayCache is a Service in front of another that answers a retransmitted
// call with the reply to its first transmission, and does not have it executed
// again: RFC 5531, Section 4, lets a server do so by the XID, and RFC 1813,
// Section 4.5, calls it the duplicate request cache. One serves all transports
// and connections, for a client comes back on another.
//
//	call ── Keep? ──no──────────────────────────────▶ next
//	         │yes                                       ▲
//	         ├─ new ───────── executed, reply kept ─────┘
//	         ├─ executed ──── the reply that was kept
//	         └─ running ───── waits for the first one's reply
//
// A call is the same as another of the same client address, whatever the port,
// with the same XID, program, version, procedure, length, and checksum of its
// first 512 octets, the credential among them.
//
// Calls of procedures that are kept do not end with their connection, as the
// client will ask again for what became of them: their context is the cache's,
// which Close ends.
//
// Replies that are longer than 1 KiB or have a data item are not kept; in NFS
// those of READ, READLINK and the listings alone may be, which any number of
// executions leaves as they are. Nor are those that a program marks as NoReplay.
//
// Memory is bounded. Above the bound the party that takes most of it, an IPv4
// address or 64 bits of an IPv6 one, loses its oldest reply, so that no client
// pushes out the replies of all others. What is kept is lost when the process
// ends.
type ReplayCache struct {
	next Service
	cfg  ReplayConfig
	seed maphash.Seed

	life  context.Context // of calls whose procedures are kept
	close context.CancelFunc

	mu     sync.Mutex
	calls  map[replayKey]*replayEntry // executed, or running
	store  replayStore                // of those that are executed
	counts ReplayStats
	unused sync.Pool // of *replayEntry
}

// ReplayStats is what a ReplayCache holds, and has done.
type ReplayStats struct {
	Replies int   // kept now
	Octets  int64 // that they take

	Executed  uint64 // calls whose procedure is kept
	Replayed  uint64 // retries answered with a reply that was kept
	Joined    uint64 // retries answered when their first try, which ran, was
	Forgotten uint64 // replies that made room before their time
}

// A replayRetry is a retransmitted call whose first transmission is running.
type replayRetry struct {
	rep      *Reply
	maxReply int
	end      chan replayEnd // room for one
}

// A replayEnd is what becomes of a retry.
type replayEnd int

const (
	replayAnswered replayEnd = iota // its reply is there
	replayAgain                     // the first one's reply cannot be had twice
	replayGivenUp                   // a newer retry waits in its place, or its connection has ended
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

// Close ends the context of the calls that run. It is for after the shutdown
// of the transports, where that came to its limit.
func (c *ReplayCache) Close() { c.close() }

// Resumes is true (see the function of that name).
func (c *ReplayCache) Resumes() bool { return true }

// Stats returns what c holds and has done.
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

// find finds out whether a call is new: then its entry is returned. If it runs,
// that is with a retry to wait with; if it was executed, its reply is in rep and
// there is no entry.
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
	// One retry waits, the newest: its connection is the likeliest to be
	// there, and so retries never take more goroutines than calls do.
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

// execute has a call executed, and keeps its reply.
func (c *ReplayCache) execute(e *replayEntry, req *Request, rep *Reply) (answer bool) {
	defer func() { c.finish(e, rep, answer) }()
	return c.next.Serve(c.life, req, rep)
}

// finish gives the reply to whoever waits for it, and keeps it if it may.
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

// replay makes rep the reply to an earlier call, which may be longer than what
// this one has room for, if its requester changed its mind.
func (r *Reply) replay(reply []byte, xid uint32, room int) {
	if len(reply) > room {
		r.Head = rpcmsg.AppendAccepted(r.Head, xid, rpcmsg.SystemErr)
		return
	}
	r.Head = append(r.Head, reply...)
}

// expire drops some of what is too old, the oldest first. The caller holds the lock, as of those below.
func (c *ReplayCache) expire(now time.Time) {
	for range replayExpires {
		e := c.store.oldest()
		if e == nil || now.Sub(e.since) < c.cfg.MaxAge {
			return
		}
		c.drop(e)
	}
}

// enter adds a call that is to be executed.
func (c *ReplayCache) enter(key replayKey) *replayEntry {
	e, _ := c.unused.Get().(*replayEntry)
	if e == nil {
		e = new(replayEntry)
	}
	e.key = key
	c.calls[key] = e
	return e
}

// drop forgets a call whose reply was kept.
func (c *ReplayCache) drop(e *replayEntry) {
	c.store.remove(e)
	c.forget(e)
}

// forget takes a call out, for its memory to be used again.
func (c *ReplayCache) forget(e *replayEntry) {
	delete(c.calls, e.key)
	*e = replayEntry{reply: e.reply[:0]}
	c.unused.Put(e)
}
