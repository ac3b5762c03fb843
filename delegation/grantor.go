package delegation

import (
	"fmt"
	"sync"
	"time"
)

// A Config configures a Grantor.
type Config struct {
	// Lease is the lease time; 0 means 10 s. The wire form is in milliseconds,
	// so values below 1 ms are errors.
	Lease time.Duration

	// Slots is the number of words in each connection's region, including
	// LeaseWord: one more than the number of grants. 0 means 65536; 1, and
	// values above maxSlots, are errors.
	Slots int

	// Grants is the maximum number of grants on all connections together; 0
	// means 131072.
	Grants int
}

// A HeldObject is an object as one connection holds or acquires it. It is in a table of the
// caller's, which delays changes until the object has been returned: a recall.Table. The methods
// are called with the Grantor locked.
type HeldObject interface {
	// Hold adds the HeldObject to the table. It returns false, and adds nothing, if the object may
	// be changing, or must not be granted for another reason.
	Hold(key []byte) bool

	// Confirm reports whether no change has begun since Hold. If it returns true, each change
	// that begins later calls Grantor.Change.
	Confirm() bool

	// IsAwaited reports whether a change waits until the object has been returned.
	IsAwaited() bool
}

func (c *Config) setDefaults() error {
	if c.Lease == 0 {
		c.Lease = defaultLease
	}
	if c.Slots == 0 {
		c.Slots = defaultSlots
	}
	if c.Grants == 0 {
		c.Grants = defaultGrants
	}
	if c.Lease < time.Millisecond || c.Slots < 2 || c.Slots > maxSlots || c.Grants < 1 {
		return fmt.Errorf("delegation: lease %v, %d slots, %d grants", c.Lease, c.Slots, c.Grants)
	}
	return nil
}

// A Grantor is the server's state: each connection's grants, by object. A key identifies an object.
// It must be the same for every handle, name and export that leads to the object.
type Grantor struct {
	cfg Config

	mu              sync.Mutex
	conns           []*Conn
	timers          timerQueue
	grantCount      int                          // grants in force
	heldByParty     map[string]int               // grants in force by party, if any
	liensByParty    map[string]int               // grants in force with a Lien by party, if any
	recallSecond    time.Duration                // start of the latest second in which recallNext recalled
	recallsInSecond int                          // number of recalls in that second
	penalties       map[penaltyKey]time.Duration // end of each penalty
	contests        map[string]dirContest        // by directory
	connCount       uint64                       // number of connections so far
	stats           Stats
	refusedByReason [ReasonOver + 1]uint64 // by reason
	pending         Effects                // effects of the call that holds mu
}

// NewGrantor returns a Grantor configured by c.
func NewGrantor(c Config) (*Grantor, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	return &Grantor{cfg: c, heldByParty: make(map[string]int), liensByParty: make(map[string]int), penalties: make(map[penaltyKey]time.Duration), contests: make(map[string]dirContest)}, nil
}

// Lease returns the lease time.
func (g *Grantor) Lease() time.Duration { return g.cfg.Lease }

// Stats counts a Grantor's events. Only InForce is a current value.
type Stats struct {
	InForce   int // grants
	Granted   uint64
	Refused   uint64
	Recalled  uint64 // by a message
	Returned  uint64 // after a recall
	Reclaimed uint64 // without a message, because unused
	Late      uint64 // recalls not answered in time, or whose connection was closed
	Silent    uint64 // leases that expired
	Cut       uint64 // connections that the server closed
}

// Stats returns the counts.
func (g *Grantor) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stats.InForce = g.grantCount
	return g.stats
}

// Refused counts an ACQUIRE that the caller has refused for its own reason.
func (g *Grantor) Refused(why Reason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.countRefusal(why)
}

func (g *Grantor) countRefusal(why Reason) {
	g.stats.Refused++
	g.refusedByReason[why]++
}

// Refusals returns Stats.Refused by reason.
func (g *Grantor) Refusals() map[Reason]uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[Reason]uint64)
	for why, n := range g.refusedByReason {
		if n > 0 {
			all[Reason(why)] = n
		}
	}
	return all
}

// Parties returns the number of grants in force for each connected party.
func (g *Grantor) Parties() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[string]int)
	for _, c := range g.conns {
		all[c.party] = g.heldByParty[c.party]
	}
	return all
}

// Effects are the actions that the caller must perform after a call, in any
// order.
type Effects struct {
	Recalls []Recall     // to post as Immediate Data
	Cuts    []Cut        // connections to close
	Ended   []HeldObject // the objects of grants that have ended, to be returned
}

// A Recall is a message with kind 1. The caller must call Grantor.Sent when the
// message has been sent.
type Recall struct {
	Conn *Conn
	Immediate
}

// A Cut says that a connection must be closed, and why.
type Cut struct {
	Conn *Conn
	Err  error
}

// takeEffects returns and clears the pending effects. The caller must hold
// g.mu.
func (g *Grantor) takeEffects() Effects {
	fx := g.pending
	g.pending = Effects{}
	return fx
}

// A grant is a delegation of an object to a connection.
type grant struct {
	*Acquisition
	lastUsed   time.Duration // when granted, or last seen in use
	slot       uint32
	generation uint32
	phase      recallPhase
	replied    bool // the reply to the ACQUIRE has been posted

	// ended says that nothing more is served under the grant. The slot may
	// still wait for kind 2.
	ended    bool
	deadline time.Duration // when to stop waiting, if recalled or disconnected
	timerAt  timerPosition // for deadline
}

// A recallPhase is the state of a grant's recall.
type recallPhase uint8

const (
	phaseHeld   recallPhase = iota // not recalled
	phaseQueued                    // the generation is advanced; kind 1 is not yet posted
	phasePosted                    // kind 1 has been handed out
	phaseSent                      // kind 1 was sent: the deadline runs
)

// isOutstanding reports whether kind 2 is expected.
func (p recallPhase) isOutstanding() bool { return p == phasePosted || p == phaseSent }
