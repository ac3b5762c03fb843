package nfs4state

import (
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// HostLocks are the locks of one object that the server's host holds for all
// clients together: for each byte the strongest lock of a client, so that
// processes of the host and clients are in each other's way. The State calls one
// method at a time, never with a lock held that other objects need. Methods may
// wait for storage.
type HostLocks interface {
	// SetLock makes kind the kind of lock of all bytes in r. With
	// NFS4ERR_DENIED a process of the host is in the way, and nothing has
	// changed; that cannot be if kind is weaker than before. With
	// NFS4ERR_NOTSUPP the host cannot hold the lock at all: clients are then in
	// each other's way only.
	SetLock(r locks.Range, kind locks.Kind) nfs4.Status

	// TestLock returns a lock of a process of the host that is in the way of
	// SetLock, or locks.None. It may return NFS4ERR_NOTSUPP too.
	TestLock(r locks.Range, kind locks.Kind) (locks.Range, locks.Kind, nfs4.Status)

	// Close unlocks all bytes, and cannot fail.
	Close()
}

// A hostFile is an object with locks on the host, or with a call that asks for
// some. It outlives the object's file: until the host has unlocked the last byte,
// no second HostLocks may be opened, because the two would be in each other's
// way.
//
// The host's lock of a byte is never weaker than the table's, and equal to it
// when dirty is empty and no call runs. A LOCK makes the host's locks stronger,
// and then the table's. All else makes the table's locks weaker, and then the
// host's, which no process can stand in the way of.
type hostFile struct {
	// mu is held during calls of the host, and during a whole LOCK: no other
	// call makes the locks of the object stronger meanwhile. It is taken before
	// State.mu.
	mu    sync.Mutex
	locks HostLocks // nil: not open

	key     string
	storage any

	// State.mu guards the rest.
	users int           // calls that have entered, or are to enter
	dirty []locks.Range // may be locked more strongly on the host than in the table
	held  bool          // the host has locks
}

// hostOwner is the lock-owner in LOCK4denied of a process of the host (RFC 8881,
// Section 18.10.3). Its client ID is one that no client gets.
const hostOwner = "host"

// enterHost returns the hostFile of an object, with its mu held. leaveHost must
// follow.
func (s *State) enterHost(a *Lock) *hostFile {
	s.mu.Lock()
	h := s.hosts[a.Key]
	if h == nil {
		h = &hostFile{key: a.Key, storage: a.Storage}
		s.hosts[a.Key] = h
	}
	h.users++
	s.mu.Unlock()
	h.mu.Lock()
	return h
}

// leaveHost brings the host's locks up to date, and unlocks h.mu. State.mu must
// not be held.
func (s *State) leaveHost(h *hostFile) {
	s.settle(h)
	s.mu.Lock()
	h.users--
	if h.users == 0 && h.locks == nil {
		delete(s.hosts, h.key)
	}
	s.mu.Unlock()
	h.mu.Unlock()
}

// lockHost is Lock for an object with locks on the host. The table is checked
// before and after the host is asked: calls that take state away do not wait for
// the host.
func (s *State) lockHost(session *Session, a *Lock, gone *released) (id nfs4.StateID, d Denied, status nfs4.Status) {
	h := s.enterHost(a)
	defer s.leaveHost(h)
	s.mu.Lock()
	l, d, status := s.mayLock(session, a, gone)
	var weaker []locks.Range
	if status == nfs4.OK {
		weaker = l.open.key.file.weaker(a)
	}
	s.mu.Unlock()
	if status != nfs4.OK {
		return id, d, status
	}
	held, d, status := s.strengthen(h, a, weaker)
	s.mu.Lock()
	defer s.mu.Unlock()
	if status == nfs4.OK {
		l, d, status = s.mayLock(session, a, gone)
	}
	if status != nfs4.OK || !slices.Equal(weaker, []locks.Range{a.Range}) {
		h.soil(a.Range) // parts must be given up
	}
	if status == nfs4.OK {
		id = s.addLock(a, &l, gone)
		h.held = h.held || held
	}
	return id, d, status
}

// weaker returns the parts of a lock's range that the host must lock more
// strongly before the lock is added to the table. Only the owner itself can have
// locked others of them as strongly.
func (f *file) weaker(a *Lock) (parts []locks.Range) {
	rest, end := a.Range, false
	if !a.Exclusive {
		f.locks.Union(a.Range, func(r locks.Range, exclusive bool) bool {
			if !exclusive {
				return true
			}
			if r.Start > rest.Start {
				parts = append(parts, locks.Range{Start: rest.Start, End: r.Start - 1})
			}
			end = r.End == a.Range.End
			rest.Start = r.End + 1
			return !end
		})
	}
	if end {
		return parts
	}
	return append(parts, rest)
}

// strengthen locks parts of a lock's range on the host, and reports whether the
// host holds any. With NFS4ERR_DENIED it returns the lock of a process of the
// host; a reclaim then gets NFS4ERR_RECLAIM_CONFLICT. h.mu is held.
func (s *State) strengthen(h *hostFile, a *Lock, parts []locks.Range) (held bool, d Denied, status nfs4.Status) {
	if status := h.open(a); status != nfs4.OK {
		return false, d, orAlone(status)
	}
	for _, r := range parts {
		switch d, status = s.setHost(h.locks, r, locks.KindOf(a.Exclusive)); {
		case status == nfs4.OK:
			held = true
		case status == nfs4.ErrDenied && a.Reclaim:
			return held, d, nfs4.ErrReclaimConflict
		case orAlone(status) != nfs4.OK:
			return held, d, status
		}
	}
	return held, Denied{}, nfs4.OK
}

// orAlone returns the status of a call of the host for the client: if the host
// has no locks, those of the table stand alone.
func orAlone(status nfs4.Status) nfs4.Status {
	if status == nfs4.ErrNotSupp {
		return nfs4.OK
	}
	return status
}

// open opens the locks on the host. h.mu is held.
func (h *hostFile) open(a *Lock) nfs4.Status {
	if h.locks != nil {
		return nfs4.OK
	}
	opened, status := a.Host()
	if status == nfs4.OK {
		h.locks = opened
	}
	return status
}

// setHost is HostLocks.SetLock with the lock that is in the way. If that lock is
// gone before it is found, setHost tries once more.
func (s *State) setHost(h HostLocks, r locks.Range, kind locks.Kind) (Denied, nfs4.Status) {
	for again := true; ; again = false {
		if status := h.SetLock(r, kind); status != nfs4.ErrDenied {
			return Denied{}, status
		}
		at, found, status := h.TestLock(r, kind)
		switch {
		case status == nfs4.OK && found != locks.None:
			return s.hostDenied(at, found), nfs4.ErrDenied
		case !again:
			return s.hostDenied(r, locks.Exclusive), nfs4.ErrDenied
		}
	}
}

// hostDenied returns the lock of a process of the host.
func (s *State) hostDenied(r locks.Range, kind locks.Kind) Denied {
	return Denied{Range: r, Exclusive: kind == locks.Exclusive, ClientID: uint64(s.config.Epoch) << 32, Owner: hostOwner}
}

// testHost is TestLock for an object with locks on the host.
func (s *State) testHost(session *Session, a *Lock, gone *released) (d Denied, status nfs4.Status) {
	h := s.enterHost(a)
	defer s.leaveHost(h)
	s.mu.Lock()
	d, status = s.testLock(session, a, gone)
	s.mu.Unlock()
	if status != nfs4.OK {
		return d, status
	}
	if status := h.open(a); status != nfs4.OK {
		return d, orAlone(status)
	}
	at, found, status := h.locks.TestLock(a.Range, locks.KindOf(a.Exclusive))
	if status == nfs4.OK && found != locks.None {
		return s.hostDenied(at, found), nfs4.ErrDenied
	}
	return d, orAlone(status)
}

// maxDirty bounds the ranges of hostFile.dirty, which grow if the host cannot
// unlock. One range then covers all.
const maxDirty = 1 << 10

// soil notes that bytes may be locked more strongly on the host than in the
// table. State.mu is held.
func (h *hostFile) soil(r locks.Range) {
	if len(h.dirty) == maxDirty {
		for _, d := range h.dirty {
			r.Start, r.End = min(r.Start, d.Start), max(r.End, d.End)
		}
		h.dirty = h.dirty[:0]
	}
	h.dirty = append(h.dirty, r)
}

// unlockHost notes that the table has unlocked bytes of an object: the locks on
// the host follow. State.mu is held.
func (s *State) unlockHost(key string, gone *released, ranges func(yield func(locks.Range) bool)) {
	h := s.hosts[key]
	if h == nil {
		return
	}
	for r := range ranges {
		h.soil(r)
	}
	if n := len(gone.hosts); n == 0 || gone.hosts[n-1] != h {
		h.users++
		gone.hosts = append(gone.hosts, h)
	}
}

// A hostPart is bytes of an object with one kind of lock.
type hostPart struct {
	locks.Range
	kind locks.Kind
}

// maxParts bounds the work with State.mu held.
const maxParts = 64

// settle makes the locks on the host those of the table. If the host fails, the
// rest stays dirty for a later call. h.mu is held.
func (s *State) settle(h *hostFile) {
	s.mu.Lock()
	settled := s.settled(h.key)
	s.mu.Unlock()
	if !settled && !s.store() {
		return // a client that has ended could have its locks back after a crash
	}
	for {
		s.mu.Lock()
		parts, locked := h.next(s.files[h.key])
		s.mu.Unlock()
		switch {
		case h.locks == nil:
			return
		case !locked:
			h.locks.Close()
			h.locks = nil
			return
		case len(parts) == 0:
			return
		}
		for i, p := range parts {
			switch h.locks.SetLock(p.Range, p.kind) {
			case nfs4.OK, nfs4.ErrNotSupp, nfs4.ErrDenied: // the host never had the stronger lock of the table
				continue
			}
			s.mu.Lock()
			for _, p := range parts[i:] {
				h.soil(p.Range)
			}
			s.mu.Unlock()
			return
		}
	}
}

// next takes dirty ranges, and returns the locks that the table has of them. It
// also reports whether the table has any locks of the object. State.mu is held.
func (h *hostFile) next(f *file) (parts []hostPart, locked bool) {
	if f == nil || !f.locks.Locked() {
		h.dirty, h.held = nil, false
		return nil, false
	}
	for len(h.dirty) > 0 && len(parts) < maxParts {
		last := len(h.dirty) - 1
		rest, end := h.dirty[last], false
		h.dirty = h.dirty[:last]
		f.locks.Union(rest, func(r locks.Range, exclusive bool) bool {
			if r.Start > rest.Start {
				parts = append(parts, hostPart{locks.Range{Start: rest.Start, End: r.Start - 1}, locks.None})
			}
			parts = append(parts, hostPart{r, locks.KindOf(exclusive)})
			end = r.End == rest.End
			rest.Start = r.End + 1
			return !end && len(parts) < maxParts
		})
		switch {
		case end:
		case len(parts) < maxParts:
			parts = append(parts, hostPart{rest, locks.None})
		default:
			h.dirty = append(h.dirty, rest)
		}
	}
	return parts, true
}

// onHost reports whether the host holds locks for a client. State.mu is held.
func (s *State) onHost(c *client) bool {
	if c.locks == 0 {
		return false
	}
	for _, o := range c.opens {
		if h := s.hosts[o.Key]; h == nil || !h.held {
			continue
		}
		for _, set := range o.locks {
			if set.part.Len() > 0 {
				return true
			}
		}
	}
	return false
}

// A releaser settles objects of one storage for callers that must not wait for
// it.
type releaser struct {
	queue   []*hostFile
	running int // goroutines
}

// maxReleasers bounds the goroutines of a releaser: each may wait for an object
// whose storage does not answer.
const maxReleasers = 8

// settleLater settles objects in the background. No lock may be held.
func (s *State) settleLater(hosts []*hostFile) {
	if len(hosts) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range hosts {
		q := s.releasers[h.storage]
		if q == nil {
			q = new(releaser)
			s.releasers[h.storage] = q
		}
		q.queue = append(q.queue, h)
		if q.running < maxReleasers {
			q.running++
			s.releasing.Go(func() { s.release(h.storage, q) })
		}
	}
}

// release settles the objects of a releaser until none is left.
func (s *State) release(storage any, q *releaser) {
	for {
		s.mu.Lock()
		if len(q.queue) == 0 {
			if q.running--; q.running == 0 {
				delete(s.releasers, storage)
			}
			s.mu.Unlock()
			return
		}
		h := q.queue[0]
		q.queue = q.queue[1:]
		s.mu.Unlock()
		h.mu.Lock()
		s.leaveHost(h)
	}
}

// WaitHost waits until the host has released the locks of clients that have
// ended. Neither Sweep, LooksAgain nor a call of a client may run.
func (s *State) WaitHost() { s.releasing.Wait() }
