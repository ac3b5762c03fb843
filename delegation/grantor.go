package delegation

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"
)

// A Config is what a Grantor may hand out.
type Config struct {
	// Lease is for how long a client may be silent; 0 means 10 s. It is told
	// in milliseconds; below one is an error.
	Lease time.Duration

	// Slots is the number of words of each connection's region, the lease's
	// among them: so many grants and one. 0 means 65536; 1, and more than
	// MaxSlots, are errors.
	Slots int

	// Grants bounds the grants of all connections; 0 means 131072.
	Grants int
}

func (c *Config) fill() error {
	if c.Lease == 0 {
		c.Lease = defaultLease
	}
	if c.Slots == 0 {
		c.Slots = defaultSlots
	}
	if c.Grants == 0 {
		c.Grants = defaultGrants
	}
	if c.Lease < time.Millisecond || c.Slots < 2 || c.Slots > MaxSlots || c.Grants < 1 {
		return fmt.Errorf("delegation: lease %v, %d slots, %d grants", c.Lease, c.Slots, c.Grants)
	}
	return nil
}

// A Grantor is the server's state: what each connection holds of which object, and
// which changes wait for it to be given back. An object is named by octets that
// are the same by whatever handle, name or export it is reached.
//
// The nil Grantor grants nothing and lets every change pass.
type Grantor struct {
	cfg    Config
	seed   maphash.Seed
	shards [shards]tally
	all    tally // of all shards, and of changes that are blind

	mu       sync.Mutex
	objects  map[string]*object
	conns    []*Conn
	timers   timers
	live     int                        // grants in force
	held     map[string]int             // of them, by party that has any
	second   time.Duration              // began the last one in which recallSome did anything
	recalled int                        // how often in it
	lates    map[lateness]time.Duration // until when
	contests map[string]contest         // by directory
	attached uint64                     // connections so far
	awaited  time.Duration              // no change is blind before this; see await
	stats    Stats
	refused  [ReasonOver + 1]uint64 // by reason
	fx       Effects                // of the call that holds mu
}

// NewGrantor returns a Grantor of what c says.
func NewGrantor(c Config) (*Grantor, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	return &Grantor{cfg: c, seed: maphash.MakeSeed(), objects: make(map[string]*object), held: make(map[string]int), lates: make(map[lateness]time.Duration), contests: make(map[string]contest)}, nil
}

// Lease returns the length of the lease.
func (g *Grantor) Lease() time.Duration { return g.cfg.Lease }

// Stats counts what a Grantor did, but for InForce, which is how things are.
type Stats struct {
	InForce   int // grants
	Granted   uint64
	Refused   uint64
	Recalled  uint64 // by a message
	Returned  uint64 // in answer to one
	Reclaimed uint64 // without one, since unused
	Late      uint64 // recalls that nobody answered in time, or whose connection was given up
	Silent    uint64 // leases that ran out
	Cut       uint64 // connections ended
}

// Stats returns the counts.
func (g *Grantor) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stats.InForce = g.live
	return g.stats
}

// Refused counts an ACQUIRE that is refused for a reason of the caller's own.
func (g *Grantor) Refused(why Reason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse(why)
}

func (g *Grantor) refuse(why Reason) {
	g.stats.Refused++
	g.refused[why]++
}

// Refusals returns Stats.Refused by reason.
func (g *Grantor) Refusals() map[Reason]uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[Reason]uint64)
	for why, n := range g.refused {
		if n > 0 {
			all[Reason(why)] = n
		}
	}
	return all
}

// Parties returns how many grants are in force for each party that is connected.
func (g *Grantor) Parties() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[string]int)
	for _, c := range g.conns {
		all[c.party] = g.held[c.party]
	}
	return all
}

// Effects are what the caller has to do after a call, in any order.
type Effects struct {
	Recalls []Recall  // to be posted as Immediate Data
	Cuts    []Cut     // connections to be ended
	Ready   []*Change // changes that wait no longer
	Ended   []any     // for each grant that has ended, its Lien
}

// A Recall is a message of kind 1. When it has been sent, Grantor.Sent is to be
// told.
type Recall struct {
	Conn *Conn
	Immediate
}

// A Cut says that a connection must end, and why.
type Cut struct {
	Conn *Conn
	Err  error
}

// effects returns what has gathered in fx. The caller holds g.mu.
func (g *Grantor) effects() Effects {
	fx := g.fx
	g.fx = Effects{}
	return fx
}

// A grant is what a connection holds of an object.
type grant struct {
	conn       *Conn
	object     *object
	lien       any           // see Acquisition
	names      bool          // likewise
	used       time.Duration // when it was granted, or seen in use
	slot       uint32
	generation uint32
	phase      phase
	replied    bool // the reply to the ACQUIRE has been posted

	// over says that nothing is served under the grant any more, although
	// the slot may be unanswered for.
	over    bool
	due     time.Duration // when patience with it ends, if recalled or lingering
	waiters []*Change
}

// A phase is how far the recall of a grant has come.
type phase uint8

const (
	held   phase = iota // not recalled
	queued              // the generation is gone; kind 1 has yet to be posted
	posted              // kind 1 has been handed out
	sent                // kind 1 has been sent: the deadline runs
)

// out tells whether kind 2 may come.
func (p phase) out() bool { return p == posted || p == sent }

// An object is something that is held, asked for, or being changed where that
// matters to somebody.
type object struct {
	key     string
	shard   uint8
	grants  []*grant       // in force, at most one for each connection
	asked   []*Acquisition // prepared
	changes int            // running or waiting: the object is contended
	until   time.Duration  // it also is until then, for a change that will be tried again
}

// contended tells whether nothing of the object is granted now.
func (o *object) contended(now time.Duration) bool { return o.changes > 0 || now < o.until }

// of returns the grant or Acquisition of c, if any.
func (o *object) of(c *Conn) (*grant, *Acquisition) {
	for _, gr := range o.grants {
		if gr.conn == c {
			return gr, nil
		}
	}
	for _, a := range o.asked {
		if a.conn == c {
			return nil, a
		}
	}
	return nil, nil
}
