package nfs4state

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A lockOwnerKey identifies a lock-owner.
type lockOwnerKey struct {
	client *client
	name   string
}

// A lockOwner is a lock-owner with locks on a file. It may have several
// lockSets, through different Opens, but its locks form a single set of bytes
// (RFC 8881, Section 9.5).
type lockOwner struct {
	lockOwnerKey
	file     *file
	ranges   *locks.Owner
	setCount int
}

// A lockSet holds the locks of a lock-owner through one Open. When all bytes are
// unlocked, its stateid remains until FREE_STATEID or CLOSE (RFC 8881, Section
// 8.2.4).
type lockSet struct {
	holding
	owner *lockOwner
	part  *locks.Part
}

// A Lock holds the arguments of State.Lock. State.Unlock uses only StateID, Key
// and Range, and State.TestLock only Owner, Key, Range and Exclusive.
type Lock struct {
	// StateID is the stateid of the lock-owner's locks through an open or, if
	// New is set, of the open, or if ByDelegation is also set, perhaps of a delegation that
	// represents one (RFC 9754, Section 4).
	StateID      nfs4.StateID
	New          bool
	ByDelegation bool
	Owner        []byte // the lock-owner, if New is set

	Key       string // the object's key
	Range     locks.Range
	Exclusive bool
	Reclaim   bool

	// Tell is called when a denied lock may be free. No mutex is held, and Tell
	// must not block. If Tell is nil, the owner is not notified.
	Tell func(*Waiting)

	// File becomes the File of the Open with which a Machine locks the object, if it
	// does not exist yet. Config.Release gets it. Handle is the call's filehandle.
	File   any
	Handle []byte

	// For, if not nil, is the Waiting of a Machine that gets the lock. Before is then
	// set to the owner's previous locks in the range, for RevertLock.
	For    *Waiting
	Before []locks.Lock

	// Host opens the object's locks on the server's host. With NFS4ERR_NOTSUPP,
	// and if Host is nil, only the server has the locks. Host is called if none
	// are open, with no mutex held that other objects need. Storage is any
	// comparable value: objects on one storage may hang together.
	Host    func() (HostLocks, nfs4.Status)
	Storage any

	Aside yieldingCall // may be nil
}

// A Denied is a conflicting lock.
type Denied struct {
	Range     locks.Range
	Exclusive bool
	ClientID  uint64
	Owner     string
	Machine   bool // the owner belongs to a Machine
}

// Lock locks bytes in an object for a lock-owner of a session's client (RFC
// 8881, Section 18.10), and replaces the owner's earlier locks on them. It
// returns the stateid of the owner's locks or, with NFS4ERR_DENIED, the
// conflicting lock of another owner or a host process. Conflicting clients
// whose lease has expired are removed. With NFS4ERR_DEADLOCK, the owner of a
// Machine would wait forever.
func (s *State) Lock(session *Session, a *Lock) (id nfs4.StateID, d Denied, status nfs4.Status) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	status = s.retryUntilStored(a.Aside, func(whole bool) (status nfs4.Status) {
		if a.Host != nil {
			id, d, status = s.lockWithHost(session, a, whole, &deferred)
		} else {
			id, d, status = s.lockInTable(session, a, whole, &deferred)
		}
		if status == nfs4.ErrDenied && a.Tell != nil {
			status = s.enqueueWaiter(session, a, &d)
		}
		return status
	})
	if status == nfs4.ErrDenied && a.Tell != nil {
		s.lockWait()
	}
	if status != nfs4.OK {
		s.lockAndTidyMachine(session.client, a, &deferred)
	}
	return id, d, status
}

// lockInTable locks bytes only in the table, and not on the host.
func (s *State) lockInTable(session *Session, a *Lock, whole bool, deferred *deferredWork) (id nfs4.StateID, d Denied, status nfs4.Status) {
	s.lockClient(session.client, &deferred.hold, whole)
	defer s.unlock(&deferred.hold)
	s.lockFile(a.Key, &deferred.hold)
	l, d, status := s.mayLock(session, a, deferred)
	if status == nfs4.OK {
		id, status = s.addLock(a, &l, deferred)
	}
	return id, d, status
}

// A lockTarget is the state that a lock belongs to. owner and set are nil if the
// lock must create them.
type lockTarget struct {
	open  *Open
	owner *lockOwner
	set   *lockSet
}

// mayLock checks a LOCK. It changes nothing, except that it removes conflicting
// clients whose lease has expired. If the status is OK, the caller may call
// addLock. With NFS4ERR_DENIED, mayLock returns another owner's lock.
func (s *State) mayLock(session *Session, a *Lock, deferred *deferredWork) (l lockTarget, d Denied, status nfs4.Status) {
	c := session.client
	l, status = s.findLockState(session, a)
	o := l.open
	switch {
	case c.ended:
		return l, d, nfs4.ErrBadSession
	case o != nil && o.Key != a.Key:
		return l, d, nfs4.ErrBadStateID
	case status != nfs4.OK:
		return l, d, status
	case a.New && l.set != nil && c.v40 != nil:
		return l, d, nfs4.ErrBadSeqID // RFC 7530, Section 16.10.5
	case !c.isMachine() && o.Access()&accessFor(a.Exclusive) == 0:
		return l, d, nfs4.ErrOpenMode
	case a.Reclaim:
		status = s.mayReclaim(c, hadLocks)
	case s.locksWait(c):
		status = nfs4.ErrGrace
	}
	if status != nfs4.OK {
		return l, d, status
	}
	switch {
	case s.steppedLock != nil && s.steppedLock.file == o.key.file:
		return l, d, statusEnding
	case o.key.file.queue != nil && !deferred.isWhole(): // the owner may leave the queue
		return l, d, statusNeedsState
	}
	if d, first := o.key.file.firstInTurn(c, string(a.Owner), a); first && a.Tell != nil {
		return l, d, nfs4.ErrDenied
	}
	switch d, status := s.findConflict(o.key.file, l.owner, c, a.Range, a.Exclusive, deferred); {
	case status == nfs4.ErrDenied && a.Reclaim:
		return l, d, nfs4.ErrReclaimConflict
	case status != nfs4.OK:
		return l, d, status
	}
	status = s.checkLockLimits(c, l.set == nil, len(a.Owner), deferred)
	if status == nfs4.OK {
		status = s.recordState(c, hadLocks, a.Key, &deferred.hold)
	}
	return l, d, status
}

// addLock locks the bytes in a LOCK that mayLock has permitted, and returns the stateid.
// If it replaces very many locks, it releases State.mu in between: other calls then get
// statusEnding, as addLock does if another such LOCK is in progress.
func (s *State) addLock(a *Lock, l *lockTarget, deferred *deferredWork) (nfs4.StateID, nfs4.Status) {
	rest, status := s.lockInSteps(a, l, &deferred.hold)
	if status != nfs4.OK {
		return nfs4.StateID{}, status
	}
	set := l.set
	if set == nil {
		set = s.newLockSet(l.open, l.owner, string(a.Owner))
	}
	s.lockBytes(set, a, rest, &deferred.hold)
	set.bumpSeqID()
	if f := set.owner.file; f.queue != nil {
		s.removeGranted(f, set.client, set.owner.name, a)
		if !a.Exclusive {
			deferred.noteFreed(f, a.Range) // may have been an exclusive lock
		}
	}
	return set.StateID(), nfs4.OK
}

// lockInSteps locks bytes in steps until few of the owner's earlier locks remain in the
// range, and returns the rest of the range.
func (s *State) lockInSteps(a *Lock, l *lockTarget, h *hold) (rest locks.Range, status nfs4.Status) {
	rest, a.Before = a.Range, nil
	if l.owner == nil {
		return rest, nfs4.OK // it has no locks
	}
	owner := l.owner.ranges
	head := owner.Head(rest, maxEntriesPerHold)
	switch {
	case head.End == rest.End:
		return rest, nfs4.OK
	case !h.isWhole():
		return rest, statusNeedsState
	case s.steppedLock != nil:
		return rest, statusEnding
	}
	if l.set == nil { // the locks belong to another open
		l.set = s.newLockSet(l.open, l.owner, string(a.Owner))
	}
	s.steppedLock = &steppedLock{file: l.owner.file, done: make(chan struct{})}
	defer func() {
		close(s.steppedLock.done)
		s.steppedLock = nil
	}()
	for ; head.End != rest.End; head = owner.Head(rest, maxEntriesPerHold) {
		s.lockBytes(l.set, a, head, h)
		rest.Start = head.End + 1
		if s.mu.pauseLocked(); s.holdings.get(l.set.index) != &l.set.holding {
			return rest, nfs4.ErrBadStateID // closed or revoked in the meantime
		}
	}
	return rest, nfs4.OK
}

// A steppedLock is a LOCK that releases State.mu between its steps.
type steppedLock struct {
	file *file
	done chan struct{}
}

// awaitSteppedLock waits until the steppedLock in progress, if any, is done.
func (s *State) awaitSteppedLock() {
	s.mu.Lock()
	c := s.steppedLock
	s.mu.Unlock()
	if c != nil {
		<-c.done
	}
}

// lockBytes locks part of a LOCK's range.
func (s *State) lockBytes(set *lockSet, a *Lock, r locks.Range, h *hold) {
	owner := set.owner.ranges
	before := owner.Len()
	if a.For != nil {
		a.Before = slices.AppendSeq(a.Before, set.part.Within(r))
	}
	set.part.Lock(r, a.Exclusive)
	s.countLocks(set, owner.Len()-before)
	s.entriesIn(h).entries += max(before-owner.Len(), 1)
}

// accessFor returns the access that a POSIX lock needs.
func accessFor(exclusive bool) uint32 {
	if exclusive {
		return nfs4.ShareWrite
	}
	return nfs4.ShareRead
}

// findLockState returns the state that a lock belongs to. If only the seqid is wrong,
// it returns both the state and the status: an error for another object comes first
// (RFC 8881, Section 8.2.4).
func (s *State) findLockState(session *Session, a *Lock) (l lockTarget, status nfs4.Status) {
	switch {
	case session.client.isMachine():
		return s.findMachineLockState(session.client, a)
	case a.New:
		if l.open, status = s.findOpen(session, &a.StateID); l.open == nil && a.ByDelegation {
			var d *Delegation
			if d, status = s.DelegationOf(session, &a.StateID); d != nil {
				l.open = &d.Open
			}
		}
		if l.open != nil && l.open.Key == a.Key {
			l.owner = l.open.key.file.owners[lockOwnerKey{l.open.client, string(a.Owner)}]
			l.set = l.open.locks[l.owner]
		}
		return l, status
	}
	if l.set, status = s.findLockSet(session, &a.StateID); l.set != nil {
		l.open, l.owner = l.set.open, l.set.owner
	}
	return l, status
}

// findLockSet returns the lockSet with a stateid, also if only the seqid is wrong.
func (s *State) findLockSet(session *Session, id *nfs4.StateID) (*lockSet, nfs4.Status) {
	h, status := s.findHolding(session, id)
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

// findConflict returns a lock that keeps an owner (nil if it has no locks yet)
// from locking r. It removes conflicting clients whose lease has expired: a
// client loses its locks with its lease if another needs the bytes (RFC 8881,
// Section 8.4.3). The status is OK, NFS4ERR_DENIED, or statusEnding.
func (s *State) findConflict(f *file, w *lockOwner, asks *client, r locks.Range, exclusive bool, deferred *deferredWork) (Denied, nfs4.Status) {
	var owner *locks.Owner
	if w != nil {
		owner = w.ranges
	}
	now := s.config.Now()
	for {
		l, is := f.locks.Conflict(owner, r, exclusive)
		if !is {
			return Denied{}, nfs4.OK
		}
		holder := l.Owner.Tag.(*lockOwner)
		switch c := holder.client; {
		case c.ended:
			return Denied{}, statusEnding
		case c != asks && !deferred.isWhole() && (c.isMachine() || c.silentFor(now) > s.config.Lease):
			return Denied{}, statusNeedsState
		case c == asks || !deferred.isWhole() || !s.endClient(c, nil, now-s.config.Lease, deferred):
			return Denied{l.Range, l.Exclusive, c.id, holder.name, c.isMachine()}, nfs4.ErrDenied
		}
	}
}

// checkLockLimits returns an error status if a lock would exceed a limit. newSet says
// that it needs a stateid, and owner is the length of its owner's name.
func (s *State) checkLockLimits(c *client, newSet bool, owner int, deferred *deferredWork) nfs4.Status {
	const grows = 2 // a lock in the middle of another one
	cost := 0
	if newSet {
		cost = stateIDCost(owner)
	}
	if s.needsStateFor(c.group, lockRanges, grows, &deferred.hold) || s.needsStateFor(c.group, stateIDs, cost, &deferred.hold) {
		return statusNeedsState
	}
	enough := s.ensureQuota(c.group, lockRanges, grows, deferred) && (!newSet || s.ensureQuota(c.group, stateIDs, cost, deferred))
	switch {
	case c.ended:
		return nfs4.ErrBadSession // its lease had expired, and it was removed
	case c.locks+grows > maxLocks, newSet && c.lockSets >= maxLockSets:
		return c.fullStatus()
	case !enough:
		return s.overQuotaStatus()
	}
	return nfs4.OK
}

// overQuotaStatus returns the status of a call that exceeds a limit. It is statusEnding while
// removed clients still have state.
func (s *State) overQuotaStatus() nfs4.Status {
	if len(s.endingClients) > 0 {
		return statusEnding
	}
	return nfs4.ErrDelay
}

// fullStatus returns the status of an OPEN or LOCK that exceeds a per-client limit. With
// NFS4ERR_DELAY the client would repeat the call forever. NFSv4.1 has no NFS4ERR_RESOURCE
// (RFC 8881, Section 15.2).
func (c *client) fullStatus() nfs4.Status {
	if c.v40 != nil {
		return nfs4.ErrResource
	}
	return nfs4.ErrServerFault
}

// newLockSet creates the lockSet of an owner and an Open. owner may be nil.
func (s *State) newLockSet(o *Open, owner *lockOwner, name string) *lockSet {
	f := o.key.file
	if owner == nil {
		owner = &lockOwner{lockOwnerKey: lockOwnerKey{o.client, name}, file: f}
		owner.ranges = f.locks.NewOwner(owner)
		if f.owners == nil {
			f.owners = make(map[lockOwnerKey]*lockOwner)
		}
		f.owners[owner.lockOwnerKey] = owner
	}
	set := &lockSet{owner: owner, part: owner.ranges.NewPart()}
	set.client, set.open, set.locks = o.client, o, set
	s.assignStateID(&set.holding, name)
	if q := o.client.v40; q != nil {
		set.seqOwner = q.owners[seqKey{name, true}]
		set.seqOwner.useCount++
		if set.seqOwner.sets == nil {
			set.seqOwner.sets = make(map[*lockSet]struct{})
		}
		set.seqOwner.sets[set] = struct{}{}
	}
	if o.locks == nil {
		o.locks = make(map[*lockOwner]*lockSet)
	}
	o.locks[owner] = set
	owner.setCount++
	o.client.lockSets++
	s.holdings.put(set.index, &set.holding)
	return set
}

// endLocks unlocks all of a lockSet's bytes, and removes it from all tables.
func (s *State) endLocks(set *lockSet, deferred *deferredWork) {
	s.releaseStateID(&set.holding)
	for set.part.Len() > 0 {
		s.dropLock(set, deferred)
	}
	delete(set.open.locks, set.owner)
	if set.owner.setCount--; set.owner.setCount == 0 {
		delete(set.owner.file.owners, set.owner.lockOwnerKey)
	}
	set.client.lockSets--
	if q := set.seqOwner; q != nil {
		q.useCount--
		delete(q.sets, set)
		s.restOwner(q, deferred)
	}
}

// countLocks adds n to the lock counts of a lockSet's owner.
func (s *State) countLocks(set *lockSet, n int) {
	c := set.client
	c.locks += n
	if set.seqOwner != nil {
		set.seqOwner.locks += n
	}
	s.addUsage(c.group, lockRanges, n)
}

// Unlock unlocks bytes that a lock-owner has locked through any open (RFC 8881,
// Section 18.12). It returns the stateid.
func (s *State) Unlock(session *Session, a *Lock) (id nfs4.StateID, status nfs4.Status) {
	status = s.unlockInSteps(session.client, a, func() (*lockSet, nfs4.Status) {
		set, status := s.findLockSet(session, &a.StateID)
		if set != nil && set.open.Key != a.Key {
			return nil, nfs4.ErrBadStateID
		}
		return set, status
	}, func(set *lockSet) {
		set.bumpSeqID()
		id = set.StateID()
	})
	return id, status
}

// unlockInSteps unlocks bytes in an object for the owner of the lockSet that find returns;
// find may return nil. When all bytes are unlocked, unlockInSteps calls done. The client
// and the file are locked during find and done. Between steps other calls see some of the locks.
func (s *State) unlockInSteps(c *client, a *Lock, find func() (*lockSet, nfs4.Status), done func(*lockSet)) nfs4.Status {
	for rest := a.Range; ; {
		status, unlocked := s.unlockStep(c, a.Key, rest, find, done)
		if status != nfs4.OK || unlocked.End == rest.End {
			return status
		}
		rest.Start = unlocked.End + 1
	}
}

// unlockStep is one step of unlockInSteps, and returns the bytes that were unlocked.
func (s *State) unlockStep(c *client, key string, r locks.Range, find func() (*lockSet, nfs4.Status), done func(*lockSet)) (nfs4.Status, locks.Range) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.lockClient(c, &deferred.hold, false)
	defer s.unlock(&deferred.hold)
	s.lockFile(key, &deferred.hold)
	set, status := find()
	if set == nil || status != nfs4.OK {
		return status, r
	}
	head := set.owner.ranges.Head(r, maxEntriesPerHold)
	if status := s.unlockSet(set, head, &deferred); status != nfs4.OK {
		return status, r
	}
	if head.End == r.End {
		done(set)
	}
	return nfs4.OK, head
}

// unlockSet unlocks bytes for a lockSet's owner.
func (s *State) unlockSet(set *lockSet, r locks.Range, deferred *deferredWork) nfs4.Status {
	owner, c := set.owner.ranges, set.client
	if (c.locks >= 2*maxLocks || s.usage.get(lockRanges) >= 2*maxAllLocks) && owner.Splits(r) {
		return nfs4.ErrDelay // unlocking parts must not create locks without limit
	}
	before := owner.Len()
	owner.Unlock(r)
	s.countLocks(set, owner.Len()-before)
	s.entriesIn(&deferred.hold).entries += max(before-owner.Len(), 1)
	deferred.noteFreed(set.owner.file, r)
	set.owner.file.queueHostUnlock(r, deferred)
	return nfs4.OK
}

// TestLock returns a lock of another owner or a host process that would keep a
// lock-owner from locking bytes in an object (RFC 8881, Section 18.11).
// Conflicting clients whose lease has expired are removed.
func (s *State) TestLock(session *Session, a *Lock) (Denied, nfs4.Status) {
	for {
		var d Denied
		status := retryWhole(func(whole bool) (status nfs4.Status) {
			d, status = s.tryTestLock(session, a, whole)
			return status
		})
		if status != statusEnding {
			return d, status
		}
		s.endAllState()
		s.awaitSteppedLock()
	}
}

func (s *State) tryTestLock(session *Session, a *Lock, whole bool) (Denied, nfs4.Status) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	if a.Host != nil {
		return s.testLockWithHost(session, a, whole, &deferred)
	}
	return s.testLock(session, a, whole, &deferred)
}

// testLock tests a lock only in the table, and not on the host.
func (s *State) testLock(session *Session, a *Lock, whole bool, deferred *deferredWork) (Denied, nfs4.Status) {
	c := session.client
	s.lockClient(c, &deferred.hold, whole)
	defer s.unlock(&deferred.hold)
	switch {
	case c.ended:
		return Denied{}, nfs4.ErrBadSession
	case s.checkGrace() && s.ledger.staleLocks+s.ledger.staleDelegations > 0:
		return Denied{}, nfs4.ErrGrace
	}
	f := s.lockFile(a.Key, &deferred.hold).files[a.Key]
	switch {
	case f == nil:
		return Denied{}, nfs4.OK
	case s.steppedLock != nil && s.steppedLock.file == f:
		return Denied{}, statusEnding
	}
	return s.findConflict(f, f.owners[lockOwnerKey{c, string(a.Owner)}], c, a.Range, a.Exclusive, deferred)
}
