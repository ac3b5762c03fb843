package fusefs

import (
	lru "container/list"
	"sync"
	"sync/atomic"
	"time"

	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A node is an object that the kernel knows, possibly by several names.
type node struct {
	m   *Mount
	id  uint64 // the kernel's number
	fh  nfs3.FH
	own atomic.Pointer[delegclient.Object] // object creates it

	// Guarded by the table's lock.
	lookups uint64 // how often the kernel was given the node
	opens   int    // files open or being opened
	places  []place
	used    atomic.Bool  // since oldLocked last passed the node
	parked  *lru.Element // in the table's list, if the kernel has forgotten the node

	mu   sync.Mutex
	attr nfs3.Attr
	cache
	delegationState
	silly  []sillyName // names given to removed open files
	rights *rights     // nil: none are known
	gaveUp *retry      // last ESTALE from open; nil: none that matters

	locked  atomic.Bool             // programs have locked it: O_APPEND asks for the end
	pending atomic.Pointer[pending] // data under way to the server; nil: there were none

	directory atomic.Pointer[directory] // use asDir
}

// A cache holds how long attributes are believed, and which attributes may
// replace them.
//
// Replies overtake each other. Each call takes a tick of the mount's clock when
// the call begins, and each change of ours takes another when the change has
// ended. A reply to a call that began before since is older than the known
// attributes, and is dropped.
//
//	GETATTR ├────────────────────────────┤  dropped: began before the WRITE ended
//	WRITE         ├─────────┤▲              since
type cache struct {
	learnt  uint64 // tick at which the call began that returned attr
	since   uint64
	changed uint64        // tick after the last change of ours
	life    time.Duration // how long a reply is believed
	stamp   instant       // when life was last set
	until   instant       // 0: the attributes have changed since

	// wrote is the end offset, in bytes, of our writes that attr may not
	// reflect. Calls that began at tick sent or later reflect those writes;
	// behind is set if attr came from an earlier call. writes counts our
	// writes.
	wrote, sent, writes uint64
	behind, known       bool // known: attr is set

	// told is the state the kernel was given.
	told struct {
		size         uint64
		mtime, ctime nfs3.Time
	}
}

// learn takes the attributes of a reply to a call that began at tick began. It
// reports whether the attributes show a change.
func (m *Mount) learn(n *node, began uint64, a *nfs3.Attr) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known && began < n.since {
		return false
	}
	n.since = max(n.since, began)
	return m.takeLocked(n, began, a)
}

// learnPost is learn for attributes that a reply may have left out.
func (m *Mount) learnPost(n *node, began uint64, a *nfs3.PostOpAttr) (changed bool) {
	return a.OK && m.learn(n, began, &a.Attr)
}

// learnOwn takes the attributes of n from the reply to a change of ours. If
// another call of ours ended meanwhile, the order of the two is unknown, and
// the next use of the attributes asks the server.
func (m *Mount) learnOwn(n *node, began uint64, a *nfs3.PostOpAttr) {
	now := m.tick()
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.OK && (began >= n.since || !n.known) {
		m.takeLocked(n, began, &a.Attr)
	} else {
		n.until = 0
	}
	n.since, n.changed = now, now
}

// suspect makes the next use of n's attributes ask the server, because they
// have changed.
func (m *Mount) suspect(n *node) {
	now := m.tick()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.since, n.changed, n.until = now, now, 0
}

// takeLocked stores attributes, which either are new or confirm the known
// attributes.
func (m *Mount) takeLocked(n *node, began uint64, a *nfs3.Attr) (changed bool) {
	if n.behind = began < n.sent; !n.behind {
		n.wrote = 0
	}
	low, high := m.cfg.RegMin, m.cfg.RegMax
	if a.Type == nfs3.TypeDir {
		low, high = m.cfg.DirMin, m.cfg.DirMax
	}
	now := time.Now()
	changed = !n.known || a.Mtime != n.attr.Mtime || a.Ctime != n.attr.Ctime || a.Size != n.attr.Size
	if n.known && a.Type == nfs3.TypeDir && m.public(&n.attr) && !m.public(a) {
		m.expireAllLocked(n)
	}
	switch {
	case changed:
		n.life, n.stamp = low, at(now)
	case at(now)-n.stamp >= instant(n.life):
		n.life, n.stamp = min(max(2*n.life, low), high), at(now)
	}
	n.attr, n.known, n.until, n.learnt = *a, true, at(now.Add(n.life)), began
	m.cfg.Held.Saw(nanoseconds(a.Ctime))
	return changed
}

// freshLocked returns how long n's attributes may still be believed.
func (n *node) freshLocked() time.Duration {
	if !n.known || n.behind || n.until == 0 || n.late.Load() > 0 {
		return 0
	}
	if trust := n.trustLocked(ofAttributes); trust > 0 && n.learnt >= n.grant {
		return trust
	}
	return max(0, n.until.left())
}

// sized reports whether the end of n is known, even while data of ours are
// under way to the server.
func (n *node) sized() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known && n.until.left() > 0
}

// stated reports whether n's attributes are the last that the server sent,
// however old.
func (n *node) stated() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known && !n.behind && n.until != 0
}

// removed reports whether another client removed n's last name.
func (n *node) removed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known && n.attr.Nlink == 0
}

// fresh is freshLocked for callers that do not hold the lock.
func (n *node) fresh() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.freshLocked()
}

// tick returns the next time of the mount's clock.
func (m *Mount) tick() uint64 { return m.clock.Add(1) }

// A directory holds the state that only nodes of directories have.
type directory struct {
	names map[string]named // names the kernel may know; under the table's lock

	// Guarded by the node's lock.
	sillyCount sillyCount
	negative   negativeNames
	loan       loan
}

// asDir returns n's directory state, creating it if needed.
func (n *node) asDir() *directory {
	if d := n.directory.Load(); d != nil {
		return d
	}
	n.directory.CompareAndSwap(nil, new(directory))
	return n.directory.Load()
}

// An instant is a time in 8 bytes instead of the 24 of a time.Time: each node
// has several. 0 means none.
type instant time.Duration

// started is the origin of instants, before all of them.
var started = time.Now().Add(-time.Nanosecond)

// at returns t as an instant.
func at(t time.Time) instant { return instant(t.Sub(started)) }

// left returns the time from now until i.
func (i instant) left() time.Duration { return time.Duration(i - at(time.Now())) }
