package nfs4state

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A Lock holds the arguments of State.Lock and MachineRecord.Lock. State.Unlock uses only StateID,
// Key and Range, and State.TestLock only Owner, Key, Range and Exclusive.
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

	// Mark and Handle are a Machine's: a value for State.Revoke, which represents the filehandle's
	// export, and the call's filehandle.
	Mark   any
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
// whose lease has expired are removed.
func (s *State) Lock(session *Session, a *Lock) (nfs4.StateID, Denied, nfs4.Status) {
	return s.lockFor(locker{session: session}, a)
}

func (s *State) lockFor(by locker, a *Lock) (id nfs4.StateID, d Denied, status nfs4.Status) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	status = s.retryUntilStored(a.Aside, func(whole bool) (status nfs4.Status) {
		if a.Host != nil {
			id, d, status = s.lockWithHost(by, a, whole, &deferred)
		} else {
			id, d, status = s.lockInTable(by, a, whole, &deferred)
		}
		if status == nfs4.ErrDenied && a.Tell != nil {
			status = s.enqueueWaiter(by, a, &d)
		}
		return status
	})
	if status == nfs4.ErrDenied && a.Tell != nil {
		s.lockWait()
	}
	return id, d, status
}

// lockInTable locks bytes only in the table, and not on the host.
func (s *State) lockInTable(by locker, a *Lock, whole bool, deferred *deferredWork) (id nfs4.StateID, d Denied, status nfs4.Status) {
	s.lockHolder(by.lockHolder(), &deferred.hold, whole)
	defer s.unlock(&deferred.hold)
	s.lockFile(a.Key, &deferred.hold)
	l, d, status := s.mayLock(by, a, deferred)
	if status == nfs4.OK {
		id, status = s.addLock(a, &l, deferred)
	}
	return id, d, status
}

// A lockTarget is the state that a lock belongs to. owner and locks are nil if the
// lock must create them, and so is file for a Machine.
type lockTarget struct {
	file  *file
	owner *lockOwner
	locks *ownerLocks
	cost  int // of what the lock must create, in stateids

	open    *Open // nil for a Machine
	set     *lockSet
	machine *MachineRecord // nil for a client
}

// useSet makes set l's locks.
func (l *lockTarget) useSet(set *lockSet) { l.set, l.locks = set, &set.ownerLocks }

// mayLock checks a LOCK. It changes nothing, except that it removes conflicting
// clients whose lease has expired. If the status is OK, the caller may call
// addLock. With NFS4ERR_DENIED, mayLock returns another owner's lock.
func (s *State) mayLock(by locker, a *Lock, deferred *deferredWork) (l lockTarget, d Denied, status nfs4.Status) {
	c := by.lockHolder()
	if c.ended {
		return l, d, nfs4.ErrBadSession
	}
	if l, status = by.findLockTarget(a); status != nfs4.OK {
		return l, d, status
	}
	switch {
	case a.Reclaim:
		status = s.mayReclaim(c, hadLocks)
	case s.locksWait(c):
		status = nfs4.ErrGrace
	}
	if status != nfs4.OK {
		return l, d, status
	}
	switch {
	case s.steppedLock != nil && s.steppedLock.file == l.file:
		return l, d, statusEnding
	case l.file != nil && l.file.queue != nil && !deferred.isWhole(): // the owner may leave the queue
		return l, d, statusNeedsState
	}
	if d, first := l.file.firstInTurn(c, string(a.Owner), a); first && a.Tell != nil {
		return l, d, nfs4.ErrDenied
	}
	switch d, status := s.findConflict(l.file, l.owner, c, a.Range, a.Exclusive, deferred); {
	case status == nfs4.ErrDenied && a.Reclaim:
		return l, d, nfs4.ErrReclaimConflict
	case status != nfs4.OK:
		return l, d, status
	}
	status = s.checkLockLimits(c, &l, deferred)
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
	switch {
	case l.machine != nil:
		l.locks = l.machine.useLocks(a)
	case l.set == nil:
		l.useSet(s.newLockSet(l.open, l.owner, string(a.Owner)))
	}
	s.lockBytes(l.locks, a, rest, &deferred.hold)
	if owner := l.locks.owner; owner.file.queue != nil {
		s.removeGranted(owner.file, owner.holder, owner.name, a)
		if !a.Exclusive {
			deferred.noteFreed(owner.file, a.Range) // may have been an exclusive lock
		}
	}
	if l.set == nil {
		return nfs4.StateID{}, nfs4.OK
	}
	l.set.bumpSeqID()
	return l.set.StateID(), nfs4.OK
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
	if l.locks == nil { // the locks belong to another open
		l.useSet(s.newLockSet(l.open, l.owner, string(a.Owner)))
	}
	s.steppedLock = &steppedLock{file: l.owner.file, done: make(chan struct{})}
	defer func() {
		close(s.steppedLock.done)
		s.steppedLock = nil
	}()
	for ; head.End != rest.End; head = owner.Head(rest, maxEntriesPerHold) {
		s.lockBytes(l.locks, a, head, h)
		rest.Start = head.End + 1
		if s.mu.pauseLocked(); l.locks.ended {
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
func (s *State) lockBytes(l *ownerLocks, a *Lock, r locks.Range, h *hold) {
	owner := l.owner.ranges
	before := owner.Len()
	if a.For != nil {
		a.Before = slices.AppendSeq(a.Before, l.part.Within(r))
	}
	l.part.Lock(r, a.Exclusive)
	s.countLocks(l.owner, owner.Len()-before)
	s.entriesIn(h).entries += max(before-owner.Len(), 1)
}

// accessFor returns the access that a POSIX lock needs.
func accessFor(exclusive bool) uint32 {
	if exclusive {
		return nfs4.ShareWrite
	}
	return nfs4.ShareRead
}

func (s *Session) lockHolder() *holder { return &s.client.holder }

func (s *Session) findLockTarget(a *Lock) (l lockTarget, status nfs4.Status) {
	var set *lockSet
	if a.New {
		l.open, status = s.state.findOpenToLock(s, a)
	} else if set, status = s.state.findLockSet(s, &a.StateID); set != nil {
		l.open, l.owner = set.open, set.owner
	}
	switch { // an error for another object comes before a wrong seqid (RFC 8881, Section 8.2.4)
	case l.open != nil && l.open.Key != a.Key:
		return l, nfs4.ErrBadStateID
	case status != nfs4.OK:
		return l, status
	}
	l.file = l.open.key.file
	if a.New {
		l.owner = l.file.owners[lockOwnerKey{s.lockHolder(), string(a.Owner)}]
		set = l.open.locks[l.owner]
	}
	switch {
	case set == nil:
		l.cost = stateIDCost(len(a.Owner))
	case a.New && s.client.v40 != nil:
		return l, nfs4.ErrBadSeqID // RFC 7530, Section 16.10.5
	default:
		l.useSet(set)
	}
	if l.open.Access()&accessFor(a.Exclusive) == 0 {
		return l, nfs4.ErrOpenMode
	}
	return l, nfs4.OK
}

// findOpenToLock returns the Open for a new lock-owner, also if only the seqid is wrong.
func (s *State) findOpenToLock(session *Session, a *Lock) (*Open, nfs4.Status) {
	o, status := s.findOpen(session, &a.StateID)
	if o != nil || !a.ByDelegation {
		return o, status
	}
	d, status := s.DelegationOf(session, &a.StateID)
	if d == nil {
		return nil, status
	}
	return &d.Open, status
}

// findConflict returns a lock that keeps an owner (nil if it has no locks yet)
// from locking r. It removes conflicting clients whose lease has expired: a
// client loses its locks with its lease if another needs the bytes (RFC 8881,
// Section 8.4.3). The status is OK, NFS4ERR_DENIED, or statusEnding.
func (s *State) findConflict(f *file, w *lockOwner, asks *holder, r locks.Range, exclusive bool, deferred *deferredWork) (Denied, nfs4.Status) {
	if f == nil {
		return Denied{}, nfs4.OK
	}
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
		owner := l.Owner.Tag.(*lockOwner)
		switch h := owner.holder; {
		case h.ended:
			return Denied{}, statusEnding
		case h == asks, !h.isSilent(s.config.Lease, now):
		case !deferred.isWhole():
			return Denied{}, statusNeedsState
		case s.endClient(h.client, nil, now-s.config.Lease, deferred):
			continue
		}
		return Denied{l.Range, l.Exclusive, owner.holder.id, owner.name, owner.holder.client == nil}, nfs4.ErrDenied
	}
}

// checkLockLimits returns an error status if a lock would exceed a limit.
func (s *State) checkLockLimits(h *holder, l *lockTarget, deferred *deferredWork) nfs4.Status {
	const grows = 2 // a lock in the middle of another one
	if s.needsStateFor(h.group, lockRanges, grows, &deferred.hold) || s.needsStateFor(h.group, stateIDs, l.cost, &deferred.hold) {
		return statusNeedsState
	}
	enough := s.ensureQuota(h.group, lockRanges, grows, deferred) && (l.cost == 0 || s.ensureQuota(h.group, stateIDs, l.cost, deferred))
	switch {
	case h.ended:
		return nfs4.ErrBadSession // its lease had expired, and it was removed
	case h.locks+grows > maxLocks, l.locks == nil && h.lockSets >= maxLockSets:
		return h.fullStatus()
	case !enough:
		return s.overQuotaStatus()
	}
	return nfs4.OK
}

// overQuotaStatus returns the status of a call that exceeds a limit. It is statusEnding while
// removed clients still have state.
func (s *State) overQuotaStatus() nfs4.Status {
	if len(s.endingHolders) > 0 {
		return statusEnding
	}
	return nfs4.ErrDelay
}

// fullStatus returns the status of an OPEN or LOCK that exceeds a holder's limit. With
// NFS4ERR_DELAY the client would repeat the call forever. NFSv4.1 has no NFS4ERR_RESOURCE
// (RFC 8881, Section 15.2).
func (h *holder) fullStatus() nfs4.Status {
	if h.client != nil && h.client.v40 != nil {
		return nfs4.ErrResource
	}
	return nfs4.ErrServerFault
}

// Unlock unlocks bytes that a lock-owner has locked through any open (RFC 8881,
// Section 18.12). It returns the stateid.
func (s *State) Unlock(session *Session, a *Lock) (id nfs4.StateID, status nfs4.Status) {
	var set *lockSet
	status = s.unlockInSteps(locker{session: session}, a, func() (_ *ownerLocks, status nfs4.Status) {
		set, status = s.findLockSet(session, &a.StateID)
		switch {
		case set == nil:
			return nil, status
		case set.open.Key != a.Key:
			return nil, nfs4.ErrBadStateID
		}
		return &set.ownerLocks, status
	}, func() {
		set.bumpSeqID()
		id = set.StateID()
	})
	return id, status
}

// unlockInSteps unlocks bytes in an object for the owner of the locks that find returns;
// find may return nil. When all bytes of a Session's owner are unlocked, unlockInSteps calls done.
// The holder and the file are locked during find and done. Between steps other calls see some of the locks.
func (s *State) unlockInSteps(by locker, a *Lock, find func() (*ownerLocks, nfs4.Status), done func()) nfs4.Status {
	for rest := a.Range; ; {
		status, unlocked := s.unlockStep(by, a, rest, find, done)
		if status != nfs4.OK || unlocked.End == rest.End {
			return status
		}
		rest.Start = unlocked.End + 1
	}
}

// unlockStep is one step of unlockInSteps, and returns the bytes that were unlocked.
func (s *State) unlockStep(by locker, a *Lock, r locks.Range, find func() (*ownerLocks, nfs4.Status), done func()) (nfs4.Status, locks.Range) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.lockHolder(by.lockHolder(), &deferred.hold, false)
	defer s.unlock(&deferred.hold)
	s.lockFile(a.Key, &deferred.hold)
	l, status := find()
	if l == nil || status != nfs4.OK {
		return status, r
	}
	head := l.owner.ranges.Head(r, maxEntriesPerHold)
	if status := s.unlockBytes(l.owner, head, &deferred); status != nfs4.OK {
		return status, r
	}
	switch {
	case head.End != r.End:
	case by.machine != nil:
		by.machine.endIfUnlocked(a, &deferred)
	default:
		done()
	}
	return nfs4.OK, head
}

// unlockBytes unlocks bytes for an owner.
func (s *State) unlockBytes(owner *lockOwner, r locks.Range, deferred *deferredWork) nfs4.Status {
	ranges := owner.ranges
	if (owner.holder.locks >= 2*maxLocks || s.usage.get(lockRanges) >= 2*maxAllLocks) && ranges.Splits(r) {
		return nfs4.ErrDelay // unlocking parts must not create locks without limit
	}
	before := ranges.Len()
	ranges.Unlock(r)
	s.countLocks(owner, ranges.Len()-before)
	s.entriesIn(&deferred.hold).entries += max(before-ranges.Len(), 1)
	deferred.noteFreed(owner.file, r)
	owner.file.queueHostUnlock(r, deferred)
	return nfs4.OK
}

// TestLock returns a lock of another owner or a host process that would keep a
// lock-owner from locking bytes in an object (RFC 8881, Section 18.11).
// Conflicting clients whose lease has expired are removed.
func (s *State) TestLock(session *Session, a *Lock) (Denied, nfs4.Status) {
	return s.testLockFor(session.lockHolder(), a)
}

func (s *State) testLockFor(h *holder, a *Lock) (Denied, nfs4.Status) {
	for {
		var d Denied
		status := retryWhole(func(whole bool) (status nfs4.Status) {
			d, status = s.tryTestLock(h, a, whole)
			return status
		})
		if status != statusEnding {
			return d, status
		}
		s.endAllState()
		s.awaitSteppedLock()
	}
}

func (s *State) tryTestLock(h *holder, a *Lock, whole bool) (Denied, nfs4.Status) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	if a.Host != nil {
		return s.testLockWithHost(h, a, whole, &deferred)
	}
	return s.testLock(h, a, whole, &deferred)
}

// testLock tests a lock only in the table, and not on the host.
func (s *State) testLock(h *holder, a *Lock, whole bool, deferred *deferredWork) (Denied, nfs4.Status) {
	s.lockHolder(h, &deferred.hold, whole)
	defer s.unlock(&deferred.hold)
	switch {
	case h.ended:
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
	return s.findConflict(f, f.owners[lockOwnerKey{h, string(a.Owner)}], h, a.Range, a.Exclusive, deferred)
}
