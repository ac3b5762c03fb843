package fusefs

import (
	lru "container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/delegation"
	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A node is an object that the kernel knows, possibly by several names.
type node struct {
	m           *Mount
	id          uint64 // the kernel's node ID
	fh          nfs3.FH
	delegObject atomic.Pointer[delegclient.Object] // ensureObject creates it

	// Guarded by the table's lock.
	lookups uint64 // number of references that the kernel was given
	opens   int    // number of files open or being opened
	places  []place
	used    atomic.Bool  // since unusedNodesLocked last passed the node
	locked  atomic.Bool  // programs have locked the node: O_APPEND needs the server's size; needs no lock
	parked  *lru.Element // element in the table's list, if the kernel has forgotten the node

	mu   sync.Mutex
	attr nfs3.Attr
	attrCache
	delegationState
	sillyNames []sillyName  // the removed open file's hidden names
	rights     *rightsCache // nil: none are known
	lastStale  *staleOpen   // last ESTALE from open; nil: none that matters

	pending atomic.Pointer[pendingWrites] // data in flight to the server; nil: none so far

	directory atomic.Pointer[directory] // use directoryState
}

// An attrCache holds how long attributes are valid, and which attributes may
// replace them.
//
// Replies overtake each other. Each call takes a tick from the mount's clock when
// the call begins, from which its reply is valid, and each of our changes takes
// another when it has completed. A reply to a call that began before validFrom is
// older than the known attributes, and is dropped.
//
//	GETATTR ├────────────────────────────┤  dropped: began before the WRITE ended
//	WRITE         ├─────────┤▲              since
type attrCache struct {
	learnedAt     uint64 // tick at which the call began that returned attr
	validFrom     uint64
	changedAt     uint64        // tick after our last change
	dataChangedAt uint64        // tick after our last change to the data
	lifetime      time.Duration // how long a reply is valid
	lifetimeSetAt instant       // when lifetime was last set
	freshUntil    instant       // 0: the attributes have changed since

	// writtenEnd is the end offset, in bytes, of our writes that attr may not
	// reflect. Calls that began at tick sentAt or later reflect those writes;
	// behind is set if attr came from an earlier call. writes counts our writes.
	writtenEnd, sentAt, writes uint64
	behind, known              bool     // known: attr is set
	crossed                    bool     // the object is outside the root's file system
	trustedUntil               deadline // until then, the kernel requests attributes only if a program forces it

	toldStamp delegation.Stamp // state that the kernel was given, including our writes
}

// learnAttr stores the attributes from a reply to a call that began at tick began.
// It reports whether the attributes show a change.
func (m *Mount) learnAttr(n *node, began uint64, a *nfs3.Attr) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known && began < n.validFrom {
		return false
	}
	n.validFrom = max(n.validFrom, began)
	return m.storeAttrLocked(n, began, a)
}

// learnPostOpAttr stores the attributes from a reply, if the reply has any. It
// reports whether they show a change.
func (m *Mount) learnPostOpAttr(n *node, began uint64, a *nfs3.PostOpAttr) (changed bool) {
	return a.OK && m.learnAttr(n, began, &a.Attr)
}

// learnAfterChange stores n's attributes from the reply to our change. If another
// of our calls completed in the meantime, the order of the two is unknown, and the
// next use of the attributes fetches them.
func (m *Mount) learnAfterChange(n *node, began uint64, a *nfs3.PostOpAttr) {
	now := m.nextTick()
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.OK && (began >= n.validFrom || !n.known) {
		m.storeAttrLocked(n, began, &a.Attr)
	} else {
		n.freshUntil = 0
	}
	n.validFrom, n.changedAt = now, now
}

// invalidateAttr makes the next use of n's attributes fetch them, because they have
// changed.
func (m *Mount) invalidateAttr(n *node) {
	now := m.nextTick()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.validFrom, n.changedAt, n.freshUntil = now, now, 0
}

// storeAttrLocked stores attributes, which either are new or confirm the known
// attributes.
func (m *Mount) storeAttrLocked(n *node, began uint64, a *nfs3.Attr) (changed bool) {
	if n.behind = began < n.sentAt; !n.behind {
		n.writtenEnd = 0
	}
	low, high := m.cfg.RegMin, m.cfg.RegMax
	if a.Type == nfs3.TypeDir {
		low, high = m.cfg.DirMin, m.cfg.DirMax
	}
	called := instant(began) // a reply is as old as its call
	changed = !n.known || attrStamp(a) != attrStamp(&n.attr)
	if n.known && a.Type == nfs3.TypeDir && m.isPublicDir(&n.attr) && !m.isPublicDir(a) {
		m.expireAllNamesLocked(n)
	}
	switch {
	case changed:
		n.lifetime, n.lifetimeSetAt = low, called
	case called-n.lifetimeSetAt >= instant(n.lifetime):
		n.lifetime, n.lifetimeSetAt = min(max(2*n.lifetime, low), high), called
	}
	m.recordFSLocked(n, a)
	n.attr, n.known, n.freshUntil, n.learnedAt = *a, true, called+instant(n.lifetime), began
	m.cfg.Held.Saw(unixNanoseconds(a.Ctime))
	return changed
}

// freshTimeLocked returns how long n's attributes are still valid.
func (n *node) freshTimeLocked() time.Duration {
	if !n.known || n.behind || n.freshUntil == 0 || n.lateChanges.Load() > 0 {
		return 0
	}
	if trust := n.trustTimeLocked(attrTypes); trust > 0 && n.learnedAt >= n.grant {
		return trust
	}
	return max(0, n.freshUntil.timeLeft())
}

// hasKnownSize reports whether n's size is known, even while our data are in flight
// to the server.
func (n *node) hasKnownSize() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known && n.freshUntil.timeLeft() > 0
}

// hasLatestAttr reports whether n's attributes are the last that the server sent,
// however old.
func (n *node) hasLatestAttr() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known && !n.behind && n.freshUntil != 0
}

// isRemoved reports whether another client removed n's last name.
func (n *node) isRemoved() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known && n.attr.Nlink == 0
}

// freshTime returns how long n's attributes are still valid.
func (n *node) freshTime() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.freshTimeLocked()
}

// nextTick returns the next time on the mount's clock: an instant later than all
// earlier ticks.
func (m *Mount) nextTick() uint64 {
	for {
		last := m.clock.Load()
		next := max(uint64(instantOf(time.Now())), last+1)
		if m.clock.CompareAndSwap(last, next) {
			return next
		}
	}
}

// A directory holds the state that only nodes of directories have.
type directory struct {
	names map[string]namedNode // names that the kernel may know; guarded by the table's lock

	// Guarded by the node's lock.
	sillyCount sillyCount
	negative   negativeNames
	loan       loan
	defaults   defaultList
}

// directoryState returns n's directory state, creating it if needed.
func (n *node) directoryState() *directory {
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

// instantOf returns t as an instant.
func instantOf(t time.Time) instant { return instant(t.Sub(started)) }

// timeLeft returns the time from now until i.
func (i instant) timeLeft() time.Duration { return time.Duration(i - instantOf(time.Now())) }
