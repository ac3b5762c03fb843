package server

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A Config says what a Keeper may hand out. The zero value is right.
type Config struct {
	// Lease is for how long a client may be silent, and how long a change waits
	// for one at most; 0 means 10 s. Below 1 ms and above MaxLease are errors.
	Lease time.Duration

	// Slots is the number of words of each connection's counters, one more than
	// it may hold; 0 means 65536. Below 2 and above 2^24 are errors.
	Slots int

	// Grants bounds what all connections hold; 0 means 131072.
	Grants int

	// Receives is the number of recalls that a connection may have unanswered; 0
	// means 32.
	Receives int

	// Marker is the path of a file that is there whenever clients may hold anything:
	// a Keeper that finds it when it begins puts all changes off until they do not
	// any more. It is to lie where it outlives the machine's restart, and no other
	// Keeper has it. "" means that nobody keeps a client's cache from being stale
	// where the server is restarted while the client cannot hear of it.
	Marker string

	// Log is told of a Marker that was found, or cannot be written; nil means
	// slog.Default().
	Log *slog.Logger

	// Clock returns the time since any point in time, and goes on while the machine
	// sleeps; nil means CLOCK_BOOTTIME.
	Clock func() time.Duration
}

// A Keeper keeps what the clients of a server hold of its objects. Its methods may be
// called by several goroutines. The nil Keeper grants nothing and lets every change pass.
type Keeper struct {
	cfg Config
	g   *delegation.Grantor

	waiting atomic.Int64 // changes
	leases  leases
	fence   *fence

	draining atomic.Bool
	ended    chan struct{} // a grant has

	kick  chan struct{} // Next is earlier than armed
	armed atomic.Int64  // the time that run waits for
	stop  chan struct{}
	once  sync.Once
	over  chan struct{}
}

// New returns a Keeper of what c says. It is to be closed.
func New(c Config) (*Keeper, error) {
	if c.Slots == 0 {
		c.Slots = defaultSlots
	}
	if c.Receives == 0 {
		c.Receives = defaultReceives
	}
	if c.Clock == nil {
		c.Clock = boottime
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Lease > MaxLease {
		return nil, fmt.Errorf("delegation: a lease of %v is longer than %v", c.Lease, MaxLease)
	}
	g, err := delegation.NewGrantor(delegation.Config{Lease: c.Lease, Slots: c.Slots, Grants: c.Grants})
	if err != nil {
		return nil, err
	}
	k := &Keeper{
		cfg: c, g: g,
		kick: make(chan struct{}, 1), stop: make(chan struct{}), over: make(chan struct{}), ended: make(chan struct{}, 1),
	}
	k.fence = newFence(c.Marker, g.Lease(), func() int { return g.Stats().InForce }, c.Log, k.now())
	k.leases.byKey = make(map[string]*lease)
	go k.run()
	return k, nil
}

// boottime reads the clock that goes on while the machine sleeps.
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // every Linux since 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}

func (k *Keeper) now() time.Duration { return k.cfg.Clock() }

// Extension returns what the server is to offer to its clients; nil where k is.
func (k *Keeper) Extension() *rpcrdma.ExtensionConfig {
	if k == nil {
		return nil
	}
	return &rpcrdma.ExtensionConfig{
		ImmediateRecvs: k.cfg.Receives, Atomics: true, Delegation: true, Counters: k.cfg.Slots, Attach: k.attach,
	}
}

// Serves tells whether a caller's connection has delegation counters.
func (k *Keeper) Serves(p *oncrpc.Peer) bool { return k.conn(p) != nil }

// RecallAll has all that anybody holds given back, since what may be granted is not what
// it was. It does not wait.
func (k *Keeper) RecallAll() {
	if k != nil {
		k.do(k.g.RecallAll(k.now()))
	}
}

// Stats counts what was granted and what became of it. The nil Keeper's are zero.
func (k *Keeper) Stats() delegation.Stats {
	if k == nil {
		return delegation.Stats{}
	}
	return k.g.Stats()
}

// Refused counts an ACQUIRE that the caller has refused for a reason of its own.
func (k *Keeper) Refused(why delegation.Reason) { k.g.Refused(why) }

// Refusals returns how many ACQUIREs were refused, by reason, and Parties how many grants
// are in force, by the address that holds them. The nil Keeper has none.
func (k *Keeper) Refusals() map[delegation.Reason]uint64 {
	if k == nil {
		return nil
	}
	return k.g.Refusals()
}

// Parties is for Refusals.
func (k *Keeper) Parties() map[string]int {
	if k == nil {
		return nil
	}
	return k.g.Parties()
}

// Lease returns for how long a client may be silent.
func (k *Keeper) Lease() time.Duration { return k.g.Lease() }

// Held returns how many grants are in force on a connection.
func (k *Keeper) Held(l *rpcrdma.ExtensionConn) int {
	if c := k.of(l); c != nil {
		return k.g.Held(c)
	}
	return 0
}

// Left returns for how long changes are put off, since clients may trust what a Keeper
// before this one has granted.
func (k *Keeper) Left() time.Duration {
	if k == nil {
		return 0
	}
	return k.fence.left(k.now())
}

// fenced tells whether changes are put off.
func (k *Keeper) fenced() bool { return k.fence != nil && k.fence.up.Load() && k.Left() > 0 }

// Drain grants nothing more, has all that anybody holds given back, and waits for that,
// though no longer than a change would. What is given back before the server ends keeps
// nobody waiting after its next start.
func (k *Keeper) Drain() {
	if k == nil {
		return
	}
	k.draining.Store(true)
	k.RecallAll()
	patience := time.NewTimer(delegation.Patience)
	defer patience.Stop()
	for k.g.Stats().InForce > 0 {
		select {
		case <-k.ended:
		case <-patience.C:
			return
		}
	}
}

// Close ends what runs. The connections must have ended.
func (k *Keeper) Close() {
	if k != nil {
		k.once.Do(func() { close(k.stop) })
		<-k.over
		k.fence.close(k.now())
	}
}

// run tells the Grantor of the time when it wants to know.
func (k *Keeper) run() {
	defer close(k.over)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		k.armed.Store(math.MaxInt64) // whoever adds a timer from here on kicks
		if at, ok := k.g.Next(); ok {
			k.armed.Store(int64(at))
			timer.Reset(max(0, at-k.now()))
			due = timer.C
		}
		select {
		case <-k.stop:
			return
		case <-k.kick:
		case <-due:
			k.do(k.g.Tick(k.now()))
		}
	}
}

// hurry has run look at the time that it waits for.
func (k *Keeper) hurry() {
	if at, ok := k.g.Next(); ok && int64(at) < k.armed.Load() {
		select {
		case k.kick <- struct{}{}:
		default: // it will
		}
	}
}
