package client

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// A Config is how a Set behaves.
type Config struct {
	// Drop is told that what is held of an Object has ended or is recalled:
	// from its return on, nothing of it may be served from a cache, and done is
	// to be called when that is so, by any goroutine. The server waits for it.
	// Drop runs on a goroutine of its own. It must not be nil.
	Drop func(o *Object, done func())

	// Log is told of servers that do not keep to the rules; nil means
	// slog.Default().
	Log *slog.Logger

	// Now reads a clock that goes on while the machine sleeps; nil means
	// CLOCK_BOOTTIME.
	Now func() time.Duration
}

// A Set is what one mount holds, over all its lines. The nil Set holds nothing, and
// no Object of it ever does.
type Set struct {
	cfg     Config
	lines   []*Attachment
	spoilt  atomic.Bool // the server has broken the rules, and is asked for nothing more
	running sync.WaitGroup
	counts  counts
	pauses  func() uint64 // how often time went by that the clock did not tell
	waits   sync.Pool     // of *wait

	mu    sync.Mutex
	clock delegation.ServerClock
}

// New returns a Set that has no lines yet.
func New(cfg Config) *Set {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	s := &Set{cfg: cfg, pauses: func() uint64 { return 0 }}
	if cfg.Now == nil {
		clock := newBootClock()
		s.cfg.Now, s.pauses = clock.Now, clock.pauses.Load
	}
	return s
}

// Close returns when nothing of the Set runs any more. It is to be called when all
// lines have been closed.
func (s *Set) Close() {
	if s != nil {
		s.running.Wait()
	}
}

// Init makes an Object of the Set of o, which holds nothing. fh is its handle, which
// must not change from now on, and owner what o.Owner returns. All lines must have
// been made before.
func (s *Set) Init(o *Object, fh []byte, owner any) {
	o.owner = owner
	if s == nil || len(s.lines) == 0 {
		return
	}
	o.fh, o.line = fh, s.lines[Pick(fh, len(s.lines))]
}

// Available tells whether Acquire may bring something, now or later: the connection
// that stands for o has delegation counters, and its server has not said that nothing
// can be held of o.
func (s *Set) Available(o *Object) bool {
	if o.line == nil {
		return false
	}
	c := o.line.present()
	if c == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refused != c.id && !o.forgotten
}

// Offers is Available for an object of which nothing has been asked for, by its handle.
func (s *Set) Offers(fh []byte) bool {
	return s != nil && len(s.lines) > 0 && s.lines[Pick(fh, len(s.lines))].present() != nil
}

// Saw takes a ctime that a reply has brought, in nanoseconds since 1970.
func (s *Set) Saw(ctime int64) {
	if s == nil {
		return
	}
	now := s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.Saw(ctime, now)
}

// ServerTime returns a time, in nanoseconds since 1970, that the server's clock has
// reached by the ctimes that came in; 0 where none did. It is what
// delegation.Unchanged wants of the moment when a call was sent.
func (s *Set) ServerTime() int64 {
	if s == nil {
		return 0
	}
	now := s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.Reads(now)
}

// Stats counts what a Set did, but for Held, which is how things are.
type Stats struct {
	Held     int64  // objects of which anything is held
	Asked    uint64 // ACQUIREs sent
	Granted  uint64
	Refused  uint64 // by the server, for whatever reason
	Recalled uint64
	Served   uint64 // uses that took no call
	Atomics  uint64 // atomic operations that a use waited for
}

type counts struct {
	held                                               atomic.Int64
	asked, granted, refused, recalled, served, atomics atomic.Uint64
}

// Stats returns the counts. Those of the nil Set are all zero.
func (s *Set) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	c := &s.counts
	return Stats{
		Held: c.held.Load(), Asked: c.asked.Load(), Granted: c.granted.Load(), Refused: c.refused.Load(),
		Recalled: c.recalled.Load(), Served: c.served.Load(), Atomics: c.atomics.Load(),
	}
}
