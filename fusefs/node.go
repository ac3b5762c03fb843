package fusefs

import (
	lru "container/list"
	"sync"
	"sync/atomic"
	"time"

	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
)

// A node is an object that the kernel knows, be it by several names.
type node struct {
	m   *Mount
	id  uint64 // the kernel's number
	fh  nfs3.FH
	own atomic.Pointer[delegclient.Object] // object

	// Of the table, and under its lock.
	lookups uint64 // how often the kernel was told
	opens   int    // open files, and such as are being opened
	places  []place
	used    atomic.Bool  // since oldLocked passed by
	parked  *lru.Element // of the table's, if the kernel has forgotten it

	mu   sync.Mutex
	attr nfs3.Attr
	cache
	delegationState
	silly  []sillyName // names that removed open files got
	rights *rights     // nil: none are known
	gaveUp *retry      // the last time that open said ESTALE; nil: none that counts

	pending atomic.Pointer[pending] // data on their way; nil: there were none

	directory atomic.Pointer[directory] // asDir
}

// A cache is how long attributes are believed, and which may replace them.
//
// Replies overtake each other. Each call takes a tick of the mount's clock when
// it begins, and a change of ours another when it has ended; a reply to a call
// that began before since is older than what is known, and is left out.
//
//	GETATTR ├────────────────────────────┤  left out: began before the WRITE ended
//	WRITE         ├─────────┤▲              since
type cache struct {
	learnt  uint64 // when the call began that they are from
	since   uint64
	changed uint64        // tick after the last change of ours
	life    time.Duration // from one reply to the next
	stamp   instant       // when life began to be what it is
	until   instant       // 0: they have changed since

	// wrote is the end of what we wrote and attr may not know of, in
	// octets; calls that began at sent or later know of it. behind tells
	// that attr came of none of these. writes counts.
	wrote, sent, writes uint64
	behind, known       bool // known: there are attributes

	// told is what the kernel has.
	told struct {
		size         uint64
		mtime, ctime nfs3.Time
	}
}

// learn takes the attributes of a reply to a call that began at tick began. It
// tells whether they show a change.
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

// learnOwn takes what the reply to a change of ours says of n. Where another
// call of ours ended meanwhile, nobody knows which came last: the next who asks
// asks the server.
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

// suspect makes the next who asks for n's attributes ask the server: they have
// changed.
func (m *Mount) suspect(n *node) {
	now := m.tick()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.since, n.changed, n.until = now, now, 0
}

// takeLocked stores attributes that are news, or confirm what is known.
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

// sized tells whether it is known where n ends, although data of ours are on
// their way.
func (n *node) sized() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known && n.until.left() > 0
}

// stated tells whether n's attributes are the last that the server said, be it
// long ago.
func (n *node) stated() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known && !n.behind && n.until != 0
}

// removed tells whether somebody else removed n's last name.
func (n *node) removed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known && n.attr.Nlink == 0
}

// fresh is freshLocked for who has no lock.
func (n *node) fresh() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.freshLocked()
}

// tick returns the next time of the mount's clock.
func (m *Mount) tick() uint64 { return m.clock.Add(1) }

// A directory is what the nodes of directories have, and others do not.
type directory struct {
	names map[string]named // that the kernel may know; under the table's lock

	// Under the node's lock.
	sillyCount sillyCount
	negative   negativeNames
	loan       loan
}

// asDir returns what n has as a directory.
func (n *node) asDir() *directory {
	if d := n.directory.Load(); d != nil {
		return d
	}
	n.directory.CompareAndSwap(nil, new(directory))
	return n.directory.Load()
}
