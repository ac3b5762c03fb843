package recall

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// A Config configures a Table. Now is required.
type Config struct {
	// Now returns the time since any fixed moment, and must never go back.
	Now func() time.Duration

	// Pause is how long an object cannot be held after a change has recalled it,
	// so that recalls do not follow each other for ever.
	Pause time.Duration

	// Writing, if not nil, reports whether holders of an earlier Table may still
	// change objects by themselves. Once it has returned false, none may.
	Writing func() bool
}

// A Table is the objects that are held. An object is named by a key. Its methods
// are safe for concurrent use. The nil Table has no holders and lets every change
// pass.
type Table struct {
	config  Config
	seed    maphash.Seed
	all     tally
	groups  [groups]group
	places  *places
	writers atomic.Int64  // holders with a Writer
	gone    atomic.Uint64 // holders with a Writer that there were
	fenced  atomic.Bool   // Config.Writing has not yet returned false: that counts as a writer
	named   atomic.Int64  // changes must name their objects until this time; see Hold
}

// groups is the number of groups of objects. A change under way keeps objects of
// its group from being held.
const groups = 1024

// A group is the objects whose keys have one hash.
type group struct {
	tally tally

	mu      sync.Mutex
	objects map[string]*object
	pauses  []pause // in order of time
}

// An object has holders, or is in a pause.
type object struct {
	holders []*Holder
	until   time.Duration // end of the pause
}

// A pause is an entry of group.pauses, whose object may be in a later pause
// already.
type pause struct {
	key   string
	until time.Duration
}

// A tally counts changes that run in its low half, and holders in its high half.
type tally struct{ n atomic.Uint64 }

const holder = 1 << 32

// begin counts a change, and reports whether there are no holders.
func (t *tally) begin() bool { return t.n.Add(1) < holder }
func (t *tally) end()        { t.n.Add(^uint64(0)) }

// hold counts a holder, and reports whether no change runs.
func (t *tally) hold() bool { return t.n.Add(holder)%holder == 0 }
func (t *tally) drop()      { t.n.Add(^uint64(holder - 1)) }

// New returns a Table without holders.
func New(c Config) *Table {
	t := &Table{config: c, seed: maphash.MakeSeed(), places: newPlaces()}
	if c.Writing != nil {
		t.fenced.Store(true)
		t.writers.Store(1)
	}
	return t
}

func (t *Table) group(key []byte) *group { return &t.groups[maphash.Bytes(t.seed, key)%groups] }

// get returns an object, or nil. g.mu is held.
func (g *group) get(key []byte, now time.Duration) *object {
	for len(g.pauses) > 0 && g.pauses[0].until <= now {
		over := g.pauses[0].key
		g.pauses = g.pauses[1:]
		g.forget(over, now)
	}
	return g.objects[string(key)]
}

// make returns an object, added if there was none. g.mu is held.
func (g *group) make(key []byte, now time.Duration) *object {
	o := g.get(key, now)
	if o == nil {
		if g.objects == nil {
			g.objects = make(map[string]*object)
		}
		o = new(object)
		g.objects[string(key)] = o
	}
	return o
}

// forget drops an object that has no holder and no pause.
func (g *group) forget(key string, now time.Duration) {
	if o := g.objects[key]; o != nil && len(o.holders) == 0 && o.until <= now {
		delete(g.objects, key)
	}
}

// stop begins a pause of an object. g.mu is held.
func (g *group) stop(key string, o *object, until time.Duration) {
	if until > o.until {
		o.until = until
		g.pauses = append(g.pauses, pause{key, until})
	}
}

// RecallAll recalls everything that is held: the conditions for it have changed.
// No change waits for that.
func (t *Table) RecallAll() {
	if t == nil {
		return
	}
	for i := range t.groups {
		g := &t.groups[i]
		var told []*Holder
		g.mu.Lock()
		for _, o := range g.objects {
			for _, h := range o.holders {
				if h.mark() {
					told = append(told, h)
				}
			}
		}
		g.mu.Unlock()
		tell(told)
	}
}

// Len returns the number of holders.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return int(t.all.n.Load() / holder)
}
