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
	// Drop is called when the delegation of an Object ends or is recalled. From
	// its return on, nothing of the Object may be served from a cache. The
	// callee must call done, on any goroutine, when that is ensured; the server
	// waits for done. Drop runs on a goroutine of its own. Drop must not be
	// nil.
	Drop func(o *Object, done func())

	// Log receives a warning about a server that breaks the rules; nil means
	// slog.Default().
	Log *slog.Logger

	// Now reads a clock that continues while the machine sleeps; nil means
	// CLOCK_BOOTTIME.
	Now func() time.Duration
}

// A Set manages the delegations of one mount, over all its Attachments. The nil
// Set holds nothing, and neither do its Objects.
type Set struct {
	cfg     Config
	lines   []*Attachment
	spoilt  atomic.Bool // the server broke the rules; the Set asks for nothing more
	running sync.WaitGroup
	counts  counts
	pauses  func() uint64 // number of pauses that the clock missed
	waits   sync.Pool     // of *wait

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
		s.use(newBootClock())
	}
	return s
}

// use makes clock the clock of s.
func (s *Set) use(clock *bootClock) { s.cfg.Now, s.pauses = clock.Now, clock.pauses.Load }

// Close waits until no goroutine of the Set runs. The caller must first close
// all connections.
func (s *Set) Close() {
	if s != nil {
		s.running.Wait()
	}
}

// Init makes o, which holds nothing, an Object of the Set. fh is its handle,
// which must not change from now on, and owner is the result of o.Owner. All
// Attachments must exist before Init.
func (s *Set) Init(o *Object, fh []byte, owner any) {
	o.owner = owner
	if s == nil || len(s.lines) == 0 {
		return
	}
	o.fh, o.line = fh, s.lines[pick(fh, len(s.lines))]
}

// Available reports whether Acquire may bring a grant, now or later. That
// requires a connection with delegation counters for o, whose server has not
// refused o for good.
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

// Offers is Available for an object given by handle for which no ACQUIRE has
// been sent.
func (s *Set) Offers(fh []byte) bool {
	return s != nil && len(s.lines) > 0 && s.lines[pick(fh, len(s.lines))].present() != nil
}

// Saw notes a ctime received in a reply, in nanoseconds since 1970.
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
// has reached according to the ctimes received; 0 if none were received.
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

// Stats counts the events of a Set. Held alone is a current value.
type Stats struct {
	Held     int64  // objects with a delegation
	Asked    uint64 // ACQUIREs sent
	Granted  uint64
	Refused  uint64 // by the server, for any reason
	Recalled uint64
	Served   uint64 // uses that needed no call
	Atomics  uint64 // atomic operations that a use waited for
}

type counts struct {
	held                                               atomic.Int64
	asked, granted, refused, recalled, served, atomics atomic.Uint64
}

// Stats returns the counts, all zero for the nil Set.
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
