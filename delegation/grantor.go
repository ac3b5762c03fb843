package delegation

import (
	"fmt"
	"hash/maphash"
	"sync"
	"time"
)

// A Config configures a Grantor.
type Config struct {
	// Lease is how long a client may be silent; 0 means 10 s. The wire form is
	// in milliseconds, so values below 1 ms are errors.
	Lease time.Duration

	// Slots is the number of words of each connection's region, including
	// LeaseWord: one more than the number of grants. 0 means 65536; 1, and
	// values above MaxSlots, are errors.
	Slots int

	// Grants bounds the grants of all connections together; 0 means 131072.
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

// A Grantor is the server's state: the grants of each connection, by object,
// and the changes that wait for their return. An object is named by a key. The
// key must be the same for every handle, name and export that leads to the
// object.
//
// The nil Grantor grants nothing and lets every change pass.
type Grantor struct {
	cfg    Config
	seed   maphash.Seed
	shards [shards]tally
	all    tally // over all shards, and of blind changes

	mu       sync.Mutex
	objects  map[string]*object
	conns    []*Conn
	timers   timers
	live     int                        // grants in force
	held     map[string]int             // grants in force, by party with any
	liens    map[string]int             // of these with a Lien, by party with any
	second   time.Duration              // start of the latest second in which recallSome recalled
	recalled int                        // number of recalls in that second
	lates    map[lateness]time.Duration // end of each penalty
	contests map[string]contest         // by directory
	attached uint64                     // number of connections so far
	awaited  time.Duration              // no change is blind before this; see await
	stats    Stats
	refused  [ReasonOver + 1]uint64 // by reason
	fx       Effects                // of the call that holds mu
}

// NewGrantor returns a Grantor configured by c.
func NewGrantor(c Config) (*Grantor, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	return &Grantor{cfg: c, seed: maphash.MakeSeed(), objects: make(map[string]*object), held: make(map[string]int), liens: make(map[string]int), lates: make(map[lateness]time.Duration), contests: make(map[string]contest)}, nil
}

// Lease returns the length of the lease.
func (g *Grantor) Lease() time.Duration { return g.cfg.Lease }

// Stats counts the events of a Grantor. InForce alone is a current value.
type Stats struct {
	InForce   int // grants
	Granted   uint64
	Refused   uint64
	Recalled  uint64 // with a message
	Returned  uint64 // in answer to a recall
	Reclaimed uint64 // without a message, because unused
	Late      uint64 // recalls not answered in time, or whose connection was given up
	Silent    uint64 // leases that ran out
	Cut       uint64 // connections that the server ended
}

// Stats returns the counts.
func (g *Grantor) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stats.InForce = g.live
	return g.stats
}

// Refused counts an ACQUIRE that the caller refuses for its own reason.
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

// Parties returns how many grants are in force for each connected party.
func (g *Grantor) Parties() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[string]int)
	for _, c := range g.conns {
		all[c.party] = g.held[c.party]
	}
	return all
}

// Effects are the actions that the caller must carry out after a call, in any
// order.
type Effects struct {
	Recalls []Recall  // to post as Immediate Data
	Cuts    []Cut     // connections to end
	Ready   []*Change // changes that no longer wait
	Ended   []any     // the Lien of each grant that has ended
}

// A Recall is a message of kind 1. The caller must call Grantor.Sent when the
// message has been sent.
type Recall struct {
	Conn *Conn
	Immediate
}

// A Cut says that a connection must end, and why.
type Cut struct {
	Conn *Conn
	Err  error
}

// effects returns the effects gathered in fx. The caller holds g.mu.
func (g *Grantor) effects() Effects {
	fx := g.fx
	g.fx = Effects{}
	return fx
}

// A grant is a delegation of an object to a connection.
type grant struct {
	conn       *Conn
	object     *object
	lien       any           // from the Acquisition
	names      bool          // from the Acquisition
	used       time.Duration // when granted, or last seen in use
	slot       uint32
	generation uint32
	phase      phase
	replied    bool // the reply to the ACQUIRE has been posted

	// over says that nothing is served under the grant any more. The slot may
	// still wait for kind 2.
	over    bool
	due     time.Duration // when to give up waiting, if recalled or lingering
	waiters []*Change
}

// A phase is the progress of a grant's recall.
type phase uint8

const (
	held   phase = iota // not recalled
	queued              // the generation is advanced; kind 1 is not yet posted
	posted              // kind 1 has been handed out
	sent                // kind 1 was sent: the deadline runs
)

// out reports whether kind 2 may arrive.
func (p phase) out() bool { return p == posted || p == sent }

// An object is an object of the server that has grants, ACQUIREs under way, or
// changes that the Grantor must notice.
type object struct {
	key     string
	shard   uint8
	grants  []*grant       // in force, at most one per connection
	asked   []*Acquisition // prepared
	changes int            // changes running or waiting, which make the object contended
	until   time.Duration  // also contended until then, for a change that will be retried
}

// contended reports whether the object must not be granted now.
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
