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
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A Config configures a Keeper. The zero value is a good default.
type Config struct {
	// Lease is how long a client may be silent, and so how long changes can be
	// held up by a silent client; 0 means 10 s. Values below 1 ms or above
	// MaxLease are errors.
	Lease time.Duration

	// Slots is the number of words of each connection's counters, one more than
	// the number of grants that the connection can hold; 0 means 65536. Values
	// below 2 or above 2^24 are errors.
	Slots int

	// Grants bounds the grants of all connections together; 0 means 131072.
	Grants int

	// Receives is the number of recalls that may be unanswered on a connection;
	// 0 means 32.
	Receives int

	// Marker is the path of a file that exists whenever grants may be
	// outstanding. A Keeper that finds the file at its start puts all changes
	// off until clients no longer trust the grants. The file must be on storage
	// that survives a restart of the machine, and must not be shared with
	// another Keeper. If Marker is "", a client's cache can become stale when
	// the server restarts while the client is cut off.
	Marker string

	// Log receives a message if a Marker was found or cannot be written; nil
	// means slog.Default().
	Log *slog.Logger

	// Clock returns the time since a fixed point, and continues while the
	// machine sleeps; nil means CLOCK_BOOTTIME.
	Clock func() time.Duration
}

// A Keeper manages the delegations of a server's clients. The methods are safe
// for concurrent use. The nil Keeper grants nothing and lets every change pass.
type Keeper struct {
	cfg Config
	g   *delegation.Grantor

	waiting *fairshare.Places // of changes
	leases  leases
	fence   *fence

	draining atomic.Bool
	ended    chan struct{} // signals the end of a grant

	kick  chan struct{} // Next is earlier than armed
	armed atomic.Int64  // the time that run waits for
	stop  chan struct{}
	once  sync.Once
	over  chan struct{}
}

// New returns a Keeper configured by c. The caller must close the Keeper.
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
		cfg: c, g: g, waiting: fairshare.NewPlaces(maxWaiting),
		kick: make(chan struct{}, 1), stop: make(chan struct{}), over: make(chan struct{}), ended: make(chan struct{}, 1),
	}
	k.fence = newFence(c.Marker, g.Lease(), func() int { return g.Stats().InForce }, c.Log, c.Clock)
	k.leases.byKey = make(map[string]*lease)
	go k.run()
	return k, nil
}

// boottime reads CLOCK_BOOTTIME, which continues while the machine sleeps.
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // every Linux since 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}

func (k *Keeper) now() time.Duration { return k.cfg.Clock() }

// Extension returns the configuration that the server offers to its clients;
// nil for the nil Keeper.
func (k *Keeper) Extension() *rpcrdma.ExtensionConfig {
	if k == nil {
		return nil
	}
	return &rpcrdma.ExtensionConfig{
		ImmediateRecvs: k.cfg.Receives, Atomics: true, Delegation: true, Counters: k.cfg.Slots, Attach: k.attach,
	}
}

// Serves reports whether a caller's connection has delegation counters.
func (k *Keeper) Serves(p *oncrpc.Peer) bool { return k.conn(p) != nil }

// RecallAll recalls all grants, because the conditions for grants have changed.
// RecallAll does not wait.
func (k *Keeper) RecallAll() {
	if k != nil {
		k.do(k.g.RecallAll(k.now()))
	}
}

// Stats returns the counts of grants and of their ends. The nil Keeper's are
// zero.
func (k *Keeper) Stats() delegation.Stats {
	if k == nil {
		return delegation.Stats{}
	}
	return k.g.Stats()
}

// Refused counts an ACQUIRE that the caller has refused for its own reason.
func (k *Keeper) Refused(why delegation.Reason) { k.g.Refused(why) }

// Refusals returns how many ACQUIREs were refused, by reason. The nil Keeper
// has none.
func (k *Keeper) Refusals() map[delegation.Reason]uint64 {
	if k == nil {
		return nil
	}
	return k.g.Refusals()
}

// Parties returns how many grants are in force, by party. The nil Keeper has
// none.
func (k *Keeper) Parties() map[string]int {
	if k == nil {
		return nil
	}
	return k.g.Parties()
}

// Lease returns how long a client may be silent.
func (k *Keeper) Lease() time.Duration { return k.g.Lease() }

// Held returns how many grants are in force on a connection.
func (k *Keeper) Held(l *rpcrdma.ExtensionConn) int {
	if c := k.of(l); c != nil {
		return k.g.Held(c)
	}
	return 0
}

// Left returns how long changes are still put off because clients may trust
// grants of an earlier Keeper.
func (k *Keeper) Left() time.Duration {
	if k == nil {
		return 0
	}
	return k.fence.left()
}

// fenced reports whether changes are put off.
func (k *Keeper) fenced() bool { return k.fence != nil && k.fence.up.Load() && k.Left() > 0 }

// Drain stops granting, recalls all grants, and waits for their return, at most
// as long as a change would wait. A grant returned before the server ends
// delays no change after the next start.
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

// Close stops the Keeper's goroutine. All connections must have ended. If the
// file system of the Marker does not answer, Close returns within some seconds.
func (k *Keeper) Close() {
	if k != nil {
		k.once.Do(func() { close(k.stop) })
		<-k.over
		k.fence.close()
	}
}

// run calls the Grantor's Tick when due.
func (k *Keeper) run() {
	defer close(k.over)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		k.armed.Store(math.MaxInt64) // from here on, a goroutine that adds a timer kicks
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

// hurry wakes run if a timer is due before the time that run waits for.
func (k *Keeper) hurry() {
	if at, ok := k.g.Next(); ok && int64(at) < k.armed.Load() {
		select {
		case k.kick <- struct{}{}:
		default: // a kick is already pending
		}
	}
}
