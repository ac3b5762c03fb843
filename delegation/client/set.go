package client

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// A Config configures a Set.
type Config struct {
	// Drop is called when an Object's delegation ends or is recalled. Nothing
	// of the Object may then be served from a cache. Drop must call done, on
	// any goroutine, when that is ensured; the server waits for it. Drop runs
	// on its own goroutine, and must not be nil.
	Drop func(o *Object, done func())

	// Log receives a warning about a server that violates the protocol; nil
	// means slog.Default().
	Log *slog.Logger

	// Now reads a clock that continues during suspend; nil means
	// CLOCK_BOOTTIME.
	Now func() time.Duration
}

// A Set manages one mount's delegations, over all its Attachments. A nil Set
// holds nothing, and neither do its Objects.
type Set struct {
	cfg         Config
	attachments []*Attachment
	violated    atomic.Bool // the server violated the protocol; the Set acquires nothing more
	background  sync.WaitGroup
	counts      setCounts
	pauses      func() uint64 // number of pauses that the clock did not count
	pendingOps  sync.Pool     // unused *pendingOp values

	mu    sync.Mutex
	clock delegation.ServerClock
}

// New returns a Set without Attachments.
func New(cfg Config) *Set {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	s := &Set{cfg: cfg, pauses: func() uint64 { return 0 }}
	if cfg.Now == nil {
		s.setClock(newBootClock())
	}
	return s
}

// setClock makes s use clock.
func (s *Set) setClock(clock *bootClock) { s.cfg.Now, s.pauses = clock.now, clock.pauses.Load }

// Close waits for the Set's goroutines. The caller must first close all
// connections.
func (s *Set) Close() {
	if s != nil {
		s.background.Wait()
	}
}

// Init adds o, which holds nothing, to the Set. fh is its handle, which must
// not change from now on, and owner is the result of o.Owner. All Attachments
// must exist before Init.
func (s *Set) Init(o *Object, fh []byte, owner any) {
	o.owner = owner
	if s == nil || len(s.attachments) == 0 {
		return
	}
	o.handle, o.attachment = fh, s.attachments[lineIndex(fh, len(s.attachments))]
}

// Available reports whether Acquire can result in a grant, now or later. This
// requires a connection with delegation counters for o, whose server has not
// refused o permanently.
func (s *Set) Available(o *Object) bool {
	if o.attachment == nil {
		return false
	}
	c := o.attachment.usableConn()
	if c == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refusedConn != c.id && !o.forgotten
}

// Offers reports whether an Acquire for the handle fh, which has no Object yet,
// can result in a grant.
func (s *Set) Offers(fh []byte) bool {
	return s != nil && len(s.attachments) > 0 && s.attachments[lineIndex(fh, len(s.attachments))].usableConn() != nil
}

// Saw records a ctime received in a reply, in nanoseconds since 1970.
func (s *Set) Saw(ctime int64) {
	if s == nil {
		return
	}
	now := s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.Saw(ctime, now)
}

// ServerTime returns a time, in nanoseconds since 1970, that the server's clock
// has reached according to the received ctimes; 0 if none were received.
// delegation.Unchanged needs this time as of the moment when a call was sent.
func (s *Set) ServerTime() int64 {
	if s == nil {
		return 0
	}
	now := s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.Reads(now)
}

// Stats counts a Set's events. Only Held is a current value.
type Stats struct {
	Held     int64  // objects with a delegation
	Asked    uint64 // ACQUIREs sent
	Granted  uint64
	Refused  uint64 // by the server, for any Reason
	Recalled uint64
	Served   uint64 // uses that needed no call
	Atomics  uint64 // atomic operations that a use waited for
}

type setCounts struct {
	held                                                  atomic.Int64
	acquires, granted, refused, recalled, served, atomics atomic.Uint64
}

// Stats returns the counts, which are zero if s is nil.
func (s *Set) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	c := &s.counts
	return Stats{
		Held: c.held.Load(), Asked: c.acquires.Load(), Granted: c.granted.Load(), Refused: c.refused.Load(),
		Recalled: c.recalled.Load(), Served: c.served.Load(), Atomics: c.atomics.Load(),
	}
}
