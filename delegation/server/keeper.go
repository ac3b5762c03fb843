package server

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A Config configures a Keeper. The zero value is a good default.
type Config struct {
	// Lease is the lease time, and so the maximum time for which a silent
	// client can delay changes; 0 means 10 s. Values below 1 ms or above
	// MaxLease are errors.
	Lease time.Duration

	// Slots is the number of words in each connection's counters, one more than
	// the number of grants that the connection can hold; 0 means 65536. Values
	// below 2 or above 2^24 are errors.
	Slots int

	// Grants is the maximum number of grants on all connections together; 0
	// means 131072.
	Grants int

	// Receives is the maximum number of outstanding recalls on a connection; 0
	// means 32.
	Receives int

	// Holders is the Table in which changes are announced; nil means a new one.
	Holders *recall.Table

	// Recorder records that grants may be outstanding. If it is nil, a client's
	// cache can become stale when the server restarts while the client is
	// disconnected.
	Recorder Recorder

	// Clock returns the time since a fixed point, and continues during suspend;
	// nil means CLOCK_BOOTTIME.
	Clock func() time.Duration
}

// A Recorder keeps a record, on storage that survives a reboot, while grants may
// be outstanding. After a restart it postpones all changes until clients no
// longer trust the grants. nfs4state.State implements it.
type Recorder interface {
	// WatchCounterGrants sets the function that returns the number of grants in
	// force.
	WatchCounterGrants(live func() int)

	// BeginCounterGrant reports whether a grant with a lease time may be made:
	// the record is stable, and no change is postponed. Then EndCounterGrant
	// must be called when the grant is in force. BeginCounterGrant waits for the
	// storage for a bounded time; if another call does, it returns busy instead.
	BeginCounterGrant(lease time.Duration) (ok, busy bool)
	EndCounterGrant()
}

// A Keeper manages the delegations that a server's clients hold: changes in its
// Table wait for their return. Its methods are safe for concurrent use. A nil
// Keeper grants nothing.
type Keeper struct {
	cfg     Config
	grantor *delegation.Grantor
	leases  leaseTable

	draining   atomic.Bool
	grantEnded chan struct{} // signals that a grant has ended

	wakeup   chan struct{} // signals that Next is earlier than nextTick
	nextTick atomic.Int64  // the time for which runTimers waits
	stopping chan struct{}
	once     sync.Once
	finished chan struct{}
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
		c.Clock = readBootTime
	}
	if c.Lease > MaxLease {
		return nil, fmt.Errorf("delegation: lease %v is longer than %v", c.Lease, MaxLease)
	}
	if c.Holders == nil {
		c.Holders = recall.New(recall.Config{Now: c.Clock, Pause: namedTime})
	}
	g, err := delegation.NewGrantor(delegation.Config{Lease: c.Lease, Slots: c.Slots, Grants: c.Grants})
	if err != nil {
		return nil, err
	}
	k := &Keeper{
		cfg: c, grantor: g, leases: leaseTable{byKey: make(map[string]*fsLease)},
		wakeup: make(chan struct{}, 1), stopping: make(chan struct{}), finished: make(chan struct{}), grantEnded: make(chan struct{}, 1),
	}
	if c.Recorder != nil {
		c.Recorder.WatchCounterGrants(func() int { return g.Stats().InForce })
	}
	go k.runTimers()
	return k, nil
}

// readBootTime reads CLOCK_BOOTTIME, which continues during suspend.
func readBootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // every Linux since 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}

func (k *Keeper) currentTime() time.Duration { return k.cfg.Clock() }

// Extension returns the configuration that the server offers to its clients, or
// nil if k is nil.
func (k *Keeper) Extension() *rpcrdma.ExtensionConfig {
	if k == nil {
		return nil
	}
	return &rpcrdma.ExtensionConfig{
		ImmediateRecvs: k.cfg.Receives, Atomics: true, Delegation: true, Counters: k.cfg.Slots, Attach: k.attachConn,
	}
}

// Holders returns the Table in which changes must be announced, or nil if k is
// nil.
func (k *Keeper) Holders() *recall.Table {
	if k == nil {
		return nil
	}
	return k.cfg.Holders
}

// Serves reports whether a caller's connection has delegation counters.
func (k *Keeper) Serves(p *oncrpc.Peer) bool { return k.connOf(p) != nil }

// Stats returns the Grantor's event counts, which are zero if k is nil.
func (k *Keeper) Stats() delegation.Stats {
	if k == nil {
		return delegation.Stats{}
	}
	return k.grantor.Stats()
}

// Refused counts an ACQUIRE that the caller has refused for its own reason.
func (k *Keeper) Refused(why delegation.Reason) { k.grantor.Refused(why) }

// Refusals returns the number of refused ACQUIREs by Reason, or nil if k is
// nil.
func (k *Keeper) Refusals() map[delegation.Reason]uint64 {
	if k == nil {
		return nil
	}
	return k.grantor.Refusals()
}

// Parties returns the number of grants in force by party, or nil if k is nil.
func (k *Keeper) Parties() map[string]int {
	if k == nil {
		return nil
	}
	return k.grantor.Parties()
}

// Lease returns the lease time, which is 0 if k is nil.
func (k *Keeper) Lease() time.Duration {
	if k == nil {
		return 0
	}
	return k.grantor.Lease()
}

// Held returns the number of grants in force on a connection.
func (k *Keeper) Held(l *rpcrdma.ExtensionConn) int {
	if c := k.connOfLink(l); c != nil {
		return k.grantor.Held(c)
	}
	return 0
}

// Drain stops granting, recalls everything in the Table, and waits for the
// grants' return, but no longer than a change would wait. A grant that is returned before the server
// stops delays no change after the next start.
func (k *Keeper) Drain() {
	if k == nil {
		return
	}
	k.draining.Store(true)
	k.cfg.Holders.RecallAll()
	patience := time.NewTimer(recall.MaxWait)
	defer patience.Stop()
	for k.grantor.Stats().InForce > 0 {
		select {
		case <-k.grantEnded:
		case <-patience.C:
			return
		}
	}
}

// Close stops the Keeper's goroutine. All connections must be closed.
func (k *Keeper) Close() {
	if k != nil {
		k.once.Do(func() { close(k.stopping) })
		<-k.finished
	}
}

// runTimers calls the Grantor's Tick when it is due.
func (k *Keeper) runTimers() {
	defer close(k.finished)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		k.nextTick.Store(math.MaxInt64) // from here on, a goroutine that adds a timer sends a wakeup
		if at, ok := k.grantor.Next(); ok {
			k.nextTick.Store(int64(at))
			timer.Reset(max(0, at-k.currentTime()))
			due = timer.C
		}
		select {
		case <-k.stopping:
			return
		case <-k.wakeup:
		case <-due:
			k.applyEffects(k.grantor.Tick(k.currentTime()))
		}
	}
}

// wakeRun wakes runTimers if a timer is due before nextTick.
func (k *Keeper) wakeRun() {
	if at, ok := k.grantor.Next(); ok && int64(at) < k.nextTick.Load() {
		select {
		case k.wakeup <- struct{}{}:
		default: // a wakeup is already pending
		}
	}
}
