package nfs4state

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A lockOwnerKey names a lock-owner of a file.
type lockOwnerKey struct {
	client *client
	name   string
}

// A lockOwner is a lock-owner with locks of a file. The owner may have several
// lockSets, through different Opens; the locks are one set of bytes all the same
// (RFC 8881, Section 9.5).
type lockOwner struct {
	lockOwnerKey
	file  *file
	owner *locks.Owner
	sets  int
}

// A lockSet is the locks of a lock-owner through one Open. Its stateid remains
// when all is unlocked, until FREE_STATEID or CLOSE (RFC 8881, Section 8.2.4).
type lockSet struct {
	holding
	owner *lockOwner
	part  *locks.Part
}

// A Lock is the arguments of State.Lock. State.Unlock has StateID, Key and Range
// of them, and State.TestLock Owner, Key, Range and Exclusive.
type Lock struct {
	// StateID is that of the lock-owner's locks through an open or, if New is
	// set, of the open.
	StateID nfs4.StateID
	New     bool
	Owner   []byte // the lock-owner, of New

	Key       string // of the object
	Range     locks.Range
	Exclusive bool
	Reclaim   bool

	// Tell is called when a lock that was denied may be free, with no lock held. It
	// must not wait. Without Tell, the owner hears of nothing.
	Tell func(*Waiting)

	// File becomes that of an Open by which a Machine locks the object, if there is none
	// yet. Config.Release gets it. Handle is the filehandle of the call.
	File   any
	Handle []byte

	// For, if not nil, is the Waiting of a Machine for which the lock is. Before then
	// gets what the owner had locked of the bytes, for GiveBack.
	For    *Waiting
	Before []locks.Lock

	// Host opens the object's locks on the server's host. With NFS4ERR_NOTSUPP,
	// and without Host, the locks are the server's alone. Host is called while
	// none are open, and with no lock held that other objects need. Storage is
	// any comparable value: objects of one storage may fail to answer together.
	Host    func() (HostLocks, nfs4.Status)
	Storage any
}

// A Denied is a lock that is in the way.
type Denied struct {
	Range     locks.Range
	Exclusive bool
	ClientID  uint64
	Owner     string
	Machine   bool // the owner is that of a Machine
}

// Lock locks bytes of an object for a lock-owner of a session's client (RFC
// 8881, Section 18.10), in place of the owner's earlier locks of them. It
// returns the stateid of the owner's locks, or with NFS4ERR_DENIED another
// owner's lock, or that of a process of the host. Silent clients give way. With
// NFS4ERR_DEADLOCK, the owner of a Machine would wait for ever.
func (s *State) Lock(session *Session, a *Lock) (id nfs4.StateID, d Denied, status nfs4.Status) {
	var gone released
	defer func() { s.give(gone) }()
	try := s.lockTable
	if a.Host != nil {
		try = s.lockHost
	}
	status = s.settling(func() (status nfs4.Status) {
		id, d, status = try(session, a, &gone)
		return status
	})
	if status == nfs4.ErrDenied && a.Tell != nil {
		status = s.wait(session, a, &d)
	}
	if status != nfs4.OK {
		s.tidyAfter(session.client, a.Key, &gone)
	}
	return id, d, status
}

// lockTable is Lock for the table alone.
func (s *State) lockTable(session *Session, a *Lock, gone *released) (id nfs4.StateID, d Denied, status nfs4.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, d, status := s.mayLock(session, a, gone)
	if status == nfs4.OK {
		id = s.addLock(a, &l, gone)
	}
	return id, d, status
}

// A lockable is the state that a lock belongs to. owner and set are nil if the
// lock is to make them.
type lockable struct {
	open  *Open
	owner *lockOwner
	set   *lockSet
}

// mayLock checks a LOCK, and changes nothing, but silent clients give way. With
// OK, addLock may follow. With NFS4ERR_DENIED, mayLock returns another owner's
// lock.
func (s *State) mayLock(session *Session, a *Lock, gone *released) (l lockable, d Denied, status nfs4.Status) {
	c := session.client
	l, status = s.lockArgs(session, a)
	o := l.open
	switch {
	case c.ended:
		return l, d, nfs4.ErrBadSession
	case o != nil && o.Key != a.Key:
		return l, d, nfs4.ErrBadStateID
	case status != nfs4.OK:
		return l, d, status
	case a.New && l.set != nil && c.seq != nil:
		return l, d, nfs4.ErrBadSeqID // RFC 7530, Section 16.10.5
	case !c.managed() && o.Access()&accessFor(a.Exclusive) == 0:
		return l, d, nfs4.ErrOpenMode
	case a.Reclaim:
		status = s.mayReclaim(c, hadLocks)
	case s.locksWait(c):
		status = nfs4.ErrGrace
	}
	if status != nfs4.OK {
		return l, d, status
	}
	if d, first := o.key.file.firstInTurn(l.open, a); first && a.Tell != nil {
		return l, d, nfs4.ErrDenied
	}
	switch d, denied := s.denied(o.key.file, l.owner, c, a.Range, a.Exclusive, gone); {
	case denied && a.Reclaim:
		return l, d, nfs4.ErrReclaimConflict
	case denied:
		return l, d, nfs4.ErrDenied
	}
	status = s.lockRoom(c, l.set == nil, len(a.Owner), gone)
	if status == nfs4.OK && !s.note(c, hadLocks, a.Key) {
		status = unsettled
	}
	return l, d, status
}

// addLock locks the bytes of a LOCK that mayLock has permitted, and returns the
// stateid.
func (s *State) addLock(a *Lock, l *lockable, gone *released) nfs4.StateID {
	set := l.set
	if set == nil {
		set = s.newLockSet(l.open, l.owner, string(a.Owner))
	}
	before := set.owner.owner.Len()
	if a.For != nil {
		a.Before = slices.Collect(set.part.Within(a.Range))
	}
	set.part.Lock(a.Range, a.Exclusive)
	s.countLocks(set.client, set.owner.owner.Len()-before)
	set.bump()
	if f := set.owner.file; len(f.waiting) > 0 {
		s.came(f, set.client, set.owner.name, a)
		if !a.Exclusive {
			gone.frees(f) // it may have been a stronger lock
		}
	}
	return set.StateID()
}

// accessFor returns the access that a POSIX lock needs.
func accessFor(exclusive bool) uint32 {
	if exclusive {
		return nfs4.ShareWrite
	}
	return nfs4.ShareRead
}

// lockArgs returns the state that a lock belongs to. If only the seqid is wrong,
// the state comes with the status: an error for another object comes first
// (RFC 8881, Section 8.2.4).
func (s *State) lockArgs(session *Session, a *Lock) (l lockable, status nfs4.Status) {
	switch {
	case session.client.managed():
		return s.lockArgsOf(session.client, a)
	case a.New:
		if l.open, status = s.own(session, &a.StateID); l.open != nil {
			l.owner = l.open.key.file.owners[lockOwnerKey{l.open.client, string(a.Owner)}]
			l.set = l.open.locks[l.owner]
		}
		return l, status
	}
	if l.set, status = s.lockSet(session, &a.StateID); l.set != nil {
		l.open, l.owner = l.set.open, l.set.owner
	}
	return l, status
}

// lockSet returns the lockSet of a stateid, also if only the seqid is wrong.
func (s *State) lockSet(session *Session, id *nfs4.StateID) (*lockSet, nfs4.Status) {
	h, status := s.holding(session, id)
	switch {
	case h == nil:
		return nil, nfs4.ErrBadStateID
	case h.open == nil:
		return nil, status
	case h.locks == nil:
		return nil, nfs4.ErrBadStateID
	}
	return h.locks, status
}

// denied returns a lock that keeps an owner of a client, or one that has no
// locks yet, from locking r. Silent clients that do are ended: the locks of a
// client end with its lease if another needs the bytes (RFC 8881, Section
// 8.4.3).
func (s *State) denied(f *file, w *lockOwner, asks *client, r locks.Range, exclusive bool, gone *released) (Denied, bool) {
	var owner *locks.Owner
	if w != nil {
		owner = w.owner
	}
	now := s.config.Now()
	for {
		l, is := f.locks.Conflict(owner, r, exclusive)
		if !is {
			return Denied{}, false
		}
		holder := l.Owner.Tag.(*lockOwner)
		c := holder.client
		if c == asks || !s.end(c, nil, now-s.config.Lease, gone) {
			return Denied{l.Range, l.Exclusive, c.id, holder.name, c.managed()}, true
		}
	}
}

// lockRoom returns the status of a lock for which there is no room. newSet says
// that it needs a stateid, and owner is the length of its owner's name. A client
// at a bound of its own gains nothing by waiting.
func (s *State) lockRoom(c *client, newSet bool, owner int, gone *released) nfs4.Status {
	const grows = 2 // a lock in the midst of another one
	room := s.room(c.party, lockRanges, grows, gone) && (!newSet || s.room(c.party, stateids, costOf(owner), gone))
	switch {
	case c.ended:
		return nfs4.ErrBadSession // it was silent, and has made room
	case c.locks+grows > maxLocks, newSet && c.lockSets >= maxLockSets:
		if c.seq != nil {
			return nfs4.ErrResource
		}
		return nfs4.ErrServerFault
	case !room:
		return nfs4.ErrDelay
	}
	return nfs4.OK
}

// newLockSet makes the lockSet of an owner and an Open. owner may be nil.
func (s *State) newLockSet(o *Open, owner *lockOwner, name string) *lockSet {
	f := o.key.file
	if owner == nil {
		owner = &lockOwner{lockOwnerKey: lockOwnerKey{o.client, name}, file: f}
		owner.owner = f.locks.NewOwner(owner)
		if f.owners == nil {
			f.owners = make(map[lockOwnerKey]*lockOwner)
		}
		f.owners[owner.lockOwnerKey] = owner
	}
	set := &lockSet{owner: owner, part: owner.owner.NewPart()}
	set.client, set.open, set.locks = o.client, o, set
	s.name(&set.holding, name)
	if q := o.client.seq; q != nil {
		set.seq = q.owners[seqKey{name, true}]
		set.seq.uses++
		if set.seq.sets == nil {
			set.seq.sets = make(map[*lockSet]struct{})
		}
		set.seq.sets[set] = struct{}{}
	}
	if o.locks == nil {
		o.locks = make(map[*lockOwner]*lockSet)
	}
	o.locks[owner] = set
	owner.sets++
	o.client.lockSets++
	s.slab.put(set.index, &set.holding)
	return set
}

// endLocks unlocks all that a lockSet has, and removes it from all tables.
func (s *State) endLocks(set *lockSet, gone *released) {
	s.unname(&set.holding)
	if set.part.Len() > 0 {
		s.unlockHost(set.open.Key, gone, set.part.Ranges)
	}
	s.countLocks(set.client, -set.part.Len())
	set.part.Drop()
	gone.frees(set.owner.file)
	delete(set.open.locks, set.owner)
	if set.owner.sets--; set.owner.sets == 0 {
		delete(set.owner.file.owners, set.owner.lockOwnerKey)
	}
	set.client.lockSets--
	if q := set.seq; q != nil {
		q.uses--
		delete(q.sets, set)
		s.rest(q, gone)
	}
}

func (s *State) countLocks(c *client, n int) {
	c.locks += n
	s.use(c.party, lockRanges, n)
}

// Unlock unlocks bytes of an object that a lock-owner has locked, through
// whichever open (RFC 8881, Section 18.12). It returns the stateid.
func (s *State) Unlock(session *Session, a *Lock) (nfs4.StateID, nfs4.Status) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	set, status := s.lockSet(session, &a.StateID)
	switch {
	case set != nil && set.open.Key != a.Key:
		return nfs4.StateID{}, nfs4.ErrBadStateID
	case status != nfs4.OK:
		return nfs4.StateID{}, status
	}
	if status := s.unlockSet(set, a, &gone); status != nfs4.OK {
		return nfs4.StateID{}, status
	}
	set.bump()
	return set.StateID(), nfs4.OK
}

// unlockSet unlocks bytes of an owner that has a lockSet.
func (s *State) unlockSet(set *lockSet, a *Lock, gone *released) nfs4.Status {
	owner, c := set.owner.owner, set.client
	if (c.locks >= 2*maxLocks || s.used[lockRanges] >= 2*maxAllLocks) && owner.Splits(a.Range) {
		return nfs4.ErrDelay // a client cannot make locks without end by unlocking parts
	}
	before := owner.Len()
	owner.Unlock(a.Range)
	s.countLocks(c, owner.Len()-before)
	gone.frees(set.owner.file)
	s.unlockHost(a.Key, gone, func(yield func(locks.Range) bool) { yield(a.Range) })
	return nfs4.OK
}

// TestLock returns a lock that would keep a lock-owner of a session's client
// from locking bytes of an object (RFC 8881, Section 18.11), or that of a process
// of the host. Silent clients give way.
func (s *State) TestLock(session *Session, a *Lock) (Denied, nfs4.Status) {
	var gone released
	defer func() { s.give(gone) }()
	if a.Host != nil {
		return s.testHost(session, a, &gone)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.testLock(session, a, &gone)
}

// testLock is TestLock for the table alone.
func (s *State) testLock(session *Session, a *Lock, gone *released) (Denied, nfs4.Status) {
	c := session.client
	switch {
	case c.ended:
		return Denied{}, nfs4.ErrBadSession
	case s.grace() && s.ledger.staleLocks+s.ledger.staleDelegations > 0:
		return Denied{}, nfs4.ErrGrace
	}
	f := s.files[a.Key]
	if f == nil {
		return Denied{}, nfs4.OK
	}
	if d, denied := s.denied(f, f.owners[lockOwnerKey{c, string(a.Owner)}], c, a.Range, a.Exclusive, gone); denied {
		return d, nfs4.ErrDenied
	}
	return Denied{}, nfs4.OK
}
