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

	// Tally counts the objects that the Grantor knows; nil means that every
	// change is announced to the Grantor.
	Tally Tally
}

// A Tally counts objects that a Grantor knows, and changes. A change is counted
// before it begins, and until it ends. It must be announced to the Grantor
// (Grantor.Change) if its object is counted. So whichever of the two is counted
// later finds the other, and a change of an unknown object costs no lock. The
// methods are called with the Grantor locked.
type Tally interface {
	AddObject(key []byte)
	RemoveObject(key []byte)

	// IsBusy reports whether a change of a counted object may be in progress
	// that began before AddObject.
	IsBusy(key []byte) bool
}

// A noTally is the Tally if every change is announced.
type noTally struct{}

func (noTally) AddObject([]byte)    {}
func (noTally) RemoveObject([]byte) {}
func (noTally) IsBusy([]byte) bool  { return false }

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
	if c.Tally == nil {
		c.Tally = noTally{}
	}
	if c.Lease < time.Millisecond || c.Slots < 2 || c.Slots > maxSlots || c.Grants < 1 {
		return fmt.Errorf("delegation: lease %v, %d slots, %d grants", c.Lease, c.Slots, c.Grants)
	}
	return nil
}

// A Grantor is the server's state: each connection's grants, by object, and the
// changes that wait for their return. A key identifies an object. It must be
// the same for every handle, name and export that leads to the object.
type Grantor struct {
	cfg Config

	mu              sync.Mutex
	objects         map[string]*object
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
	return &Grantor{cfg: c, objects: make(map[string]*object), heldByParty: make(map[string]int), liensByParty: make(map[string]int), penalties: make(map[penaltyKey]time.Duration), contests: make(map[string]dirContest)}, nil
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
	Recalls []Recall  // to post as Immediate Data
	Cuts    []Cut     // connections to close
	Ready   []*Change // changes that no longer wait
	Ended   []any     // the Lien of each grant that has ended
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
	conn       *Conn
	object     *object
	lien       any           // from the Acquisition
	names      bool          // from the Acquisition
	lastUsed   time.Duration // when granted, or last seen in use
	slot       uint32
	generation uint32
	phase      recallPhase
	replied    bool // the reply to the ACQUIRE has been posted

	// ended says that nothing more is served under the grant. The slot may
	// still wait for kind 2.
	ended    bool
	deadline time.Duration // when to stop waiting, if recalled or disconnected
	waiters  []*Change
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

// An object is an object on the server that has grants, ACQUIREs in flight, or
// changes that the Grantor must record.
type object struct {
	key            string
	grants         []*grant       // in force, at most one per connection
	acquisitions   []*Acquisition // prepared
	changeCount    int            // number of running or waiting changes, which make the object contended
	contendedUntil time.Duration  // also contended until then, for a change that will be retried
}

// isContended reports whether the object must not be granted now.
func (o *object) isContended(now time.Duration) bool {
	return o.changeCount > 0 || now < o.contendedUntil
}

// findByConn returns c's grant or Acquisition, if any.
func (o *object) findByConn(c *Conn) (*grant, *Acquisition) {
	for _, gr := range o.grants {
		if gr.conn == c {
			return gr, nil
		}
	}
	for _, a := range o.acquisitions {
		if a.conn == c {
			return nil, a
		}
	}
	return nil, nil
}

// getObject returns the object with the given key, and adds it if it is not
// known.
func (g *Grantor) getObject(key []byte) *object {
	o := g.objects[string(key)]
	if o == nil {
		o = &object{key: string(key)}
		g.objects[o.key] = o
		g.cfg.Tally.AddObject(key)
	}
	return o
}

// forgetObject removes o if it has no state left.
func (g *Grantor) forgetObject(o *object) {
	if len(o.grants) == 0 && len(o.acquisitions) == 0 && o.changeCount == 0 && o.contendedUntil == 0 && g.objects[o.key] == o {
		delete(g.objects, o.key)
		g.cfg.Tally.RemoveObject([]byte(o.key))
	}
}

// Holds reports whether an object has grants, or ACQUIREs in flight.
func (g *Grantor) Holds(key []byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.objects[string(key)]
	return o != nil && len(o.grants)+len(o.acquisitions) > 0
}
