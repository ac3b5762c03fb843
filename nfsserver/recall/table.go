package recall

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// A Config configures a Table. Now is required.
type Config struct {
	// Now returns the time since any fixed moment, and must neither be negative nor decrease.
	Now func() time.Duration

	// Pause is the time for which an object cannot be held after a change has recalled it, so
	// that recalls do not follow each other forever.
	Pause time.Duration

	// Writing, if not nil, reports whether holders in an earlier Table may still change objects
	// in their caches. Once it has returned false, none may.
	Writing func() bool
}

// A Table contains the objects that are held. A key identifies an object. Its methods are safe
// for concurrent use. The nil Table has no holders and lets every change pass.
type Table struct {
	config       Config
	seed         maphash.Seed
	total        tally
	groups       [groupCount]group
	places       *places
	writers      atomic.Int64  // number of holders with a Writer
	writersEnded atomic.Uint64 // number of ended holders with a Writer
	isFenced     atomic.Bool   // Config.Writing has not yet returned false: that counts as a writer
	namedUntil   atomic.Int64  // changes must name their objects until this time; see Hold
}

// groupCount is the number of object groups. A change in progress prevents holders for objects
// in its group.
const groupCount = 1024

// A group contains the objects whose keys have one hash.
type group struct {
	tally tally

	mu      sync.Mutex
	objects map[string]*object
	pauses  []holdPause // at most one per object
}

// An object has holders, or is in a pause.
type object struct {
	holders    []*Holder
	until      time.Duration // the pause's end, for holders without a RetryPause
	retryUntil time.Duration // the end of the pause for a change that will be tried again, for all holders
	isListed   bool          // it is in group.pauses
}

// pauseEnd returns the end of both pauses.
func (o *object) pauseEnd() time.Duration { return max(o.until, o.retryUntil) }

// A holdPause is an entry in group.pauses: its object may be dropped at that time, unless its pause
// has been extended.
type holdPause struct {
	key   string
	until time.Duration
}

// A tally counts running changes in its low half, and holders in its high half.
type tally struct{ n atomic.Uint64 }

const holderUnit = 1 << 32

// addChange counts a change, and reports whether there are no holders.
func (t *tally) addChange() bool { return t.n.Add(1) < holderUnit }
func (t *tally) endChange()      { t.n.Add(^uint64(0)) }

// isHeld reports whether there are holders.
func (t *tally) isHeld() bool { return t.n.Load() >= holderUnit }

// addHolder counts a holder, and reports whether no change runs.
func (t *tally) addHolder() bool { return t.n.Add(holderUnit)%holderUnit == 0 }
func (t *tally) dropHolder()     { t.n.Add(^uint64(holderUnit - 1)) }

// New returns a Table without holders.
func New(c Config) *Table {
	t := &Table{config: c, seed: maphash.MakeSeed(), places: newPlaces()}
	if c.Writing != nil {
		t.isFenced.Store(true)
		t.writers.Store(1)
	}
	return t
}

func (t *Table) groupOf(key []byte) *group { return &t.groups[maphash.Bytes(t.seed, key)%groupCount] }

// findObject returns an object, or nil. g.mu is held.
func (g *group) findObject(key []byte, now time.Duration) *object {
	for len(g.pauses) > 0 && g.pauses[0].until <= now {
		expired := g.pauses[0].key
		g.pauses = g.pauses[1:]
		o := g.objects[expired]
		if o.isListed = o.pauseEnd() > now; o.isListed {
			g.pauses = append(g.pauses, holdPause{expired, o.pauseEnd()})
		}
		g.dropUnused(expired)
	}
	return g.objects[string(key)]
}

// ensureObject returns an object, and adds it if there was none. g.mu is held.
func (g *group) ensureObject(key []byte, now time.Duration) *object {
	o := g.findObject(key, now)
	if o == nil {
		if g.objects == nil {
			g.objects = make(map[string]*object)
		}
		o = new(object)
		g.objects[string(key)] = o
	}
	return o
}

// dropUnused removes an object that has no holder and no pause.
func (g *group) dropUnused(key string) {
	if o := g.objects[key]; len(o.holders) == 0 && !o.isListed {
		delete(g.objects, key)
	}
}

// pauseHolding begins or extends an object's pause, whose end is o.until or o.retryUntil. Changes may
// do so at any rate. g.mu is held.
func (g *group) pauseHolding(key string, o *object, end *time.Duration, until time.Duration) {
	if *end = max(*end, until); !o.isListed {
		o.isListed = true
		g.pauses = append(g.pauses, holdPause{key, until})
	}
}

// RecallAll recalls everything that is held: the conditions for holding have changed. No change
// waits for that.
func (t *Table) RecallAll() {
	if t == nil {
		return
	}
	for i := range t.groups {
		g := &t.groups[i]
		var recalled []*Holder
		g.mu.Lock()
		for _, o := range g.objects {
			for _, h := range o.holders {
				if h.markRecalled() {
					recalled = append(recalled, h)
				}
			}
		}
		g.mu.Unlock()
		callRecalls(recalled, Changer{})
	}
}

// Len returns the number of holders.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return int(t.total.n.Load() / holderUnit)
}
