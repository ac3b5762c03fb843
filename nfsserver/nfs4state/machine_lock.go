package nfs4state

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// Lock locks bytes in an object for an owner, as State.Lock does. With NFS4ERR_DEADLOCK, the owner
// would wait forever. a.StateID and a.New are ignored.
func (m *MachineRecord) Lock(a *Lock) (Denied, nfs4.Status) {
	_, d, status := m.state.lockFor(locker{machine: m}, a)
	return d, status
}

// TestLock returns a conflicting lock, as State.TestLock does.
func (m *MachineRecord) TestLock(a *Lock) (Denied, nfs4.Status) {
	return m.state.testLockFor(&m.holder, a)
}

func (m *MachineRecord) lockHolder() *holder { return &m.holder }

func (m *MachineRecord) findLockTarget(a *Lock) (l lockTarget, status nfs4.Status) {
	l.machine, l.file = m, m.state.fileOf(a.Key)
	cost, ok := m.useCost(a.Key, a.Handle, l.file)
	switch l.locks = m.locksOf(a); {
	case a.For != nil && !a.For.queued:
		return l, nfs4.ErrBadStateID
	case !ok:
		return l, nfs4.ErrDelay
	case l.locks != nil:
		l.owner = l.locks.owner
	default:
		l.cost = cost + stateIDCost(len(a.Owner))
	}
	return l, nfs4.OK
}

// locksOf returns the locks of a's owner, or nil. The part and the shard are locked.
func (m *MachineRecord) locksOf(a *Lock) *ownerLocks {
	if f := m.files[a.Key]; f != nil {
		return f.locks[f.file.owners[lockOwnerKey{&m.holder, string(a.Owner)}]]
	}
	return nil
}

// useLocks returns the locks of a's owner, and creates them if necessary.
func (m *MachineRecord) useLocks(a *Lock) *ownerLocks {
	f, l := m.useFile(a.Key, a.Handle, a.Mark), m.locksOf(a)
	if l == nil {
		created := f.file.newOwnerLocks(&m.holder, nil, string(a.Owner))
		l = &created
		if f.locks == nil {
			f.locks = make(map[*lockOwner]*ownerLocks)
		}
		f.locks[l.owner] = l
		m.state.addUsage(m.group, stateIDs, stateIDCost(len(a.Owner)))
	}
	return l
}

// endLocks removes an owner's locks.
func (f *machineFile) endLocks(l *ownerLocks, deferred *deferredWork) {
	s := f.machine.state
	s.endOwnerLocks(l, deferred)
	delete(f.locks, l.owner)
	s.addUsage(f.machine.group, stateIDs, -stateIDCost(len(l.owner.name)))
}

// endIfUnlocked removes the locks of a's owner if it has none left.
func (m *MachineRecord) endIfUnlocked(a *Lock, deferred *deferredWork) {
	if l := m.locksOf(a); l != nil && l.part.Len() == 0 {
		f := m.files[a.Key]
		f.endLocks(l, deferred)
		f.removeIfUnused()
	}
}

// Unlock unlocks bytes in an object for an owner, and removes the owner from the queue for these
// bytes. It uses only the arguments Owner, Key and Range. NFS4ERR_DELAY means that the Machine has
// too many locks to split one.
func (m *MachineRecord) Unlock(a *Lock) nfs4.Status {
	m.leaveQueues(a, false, true)
	return m.state.unlockInSteps(locker{machine: m}, a, func() (*ownerLocks, nfs4.Status) { return m.locksOf(a), nfs4.OK }, nil)
}

// RevertLock reverts a lock that was granted to a Waiting that no longer wants it: the
// bytes are locked again as recorded in Lock.Before, as far as other owners' locks permit.
func (m *MachineRecord) RevertLock(a *Lock) {
	s := m.state
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.lockHolder(&m.holder, &deferred.hold, false)
	defer s.unlock(&deferred.hold)
	s.lockFile(a.Key, &deferred.hold)
	l := m.locksOf(a)
	if l == nil {
		return
	}
	ranges := l.owner.ranges
	before := ranges.Len()
	ranges.Unlock(a.Range)
	for _, earlier := range a.Before {
		s.entriesIn(&deferred.hold).countEntry()
		l.restoreLock(earlier)
	}
	s.countLocks(l.owner, ranges.Len()-before)
	deferred.noteFreed(l.owner.file, a.Range)
	l.owner.file.queueHostUnlock(a.Range, &deferred)
	m.endIfUnlocked(a, &deferred)
}

// restoreLock locks bytes again, as far as the locks that others have got since permit.
func (l *ownerLocks) restoreLock(earlier locks.Lock) {
	r, f := earlier.Range, l.owner.file
	if _, denied := f.locks.Conflict(l.owner.ranges, r, false); denied {
		return
	}
	_, shared := f.locks.Conflict(l.owner.ranges, r, true)
	l.part.Lock(r, earlier.Exclusive && !shared)
}

// StopWaiting removes an owner from the queue for a lock. It returns false if the owner does not
// wait for that lock.
func (m *MachineRecord) StopWaiting(a *Lock) bool { return m.leaveQueues(a, a.Exclusive) }

// leaveQueues removes a's owner from the queue for locks of a's bytes, and reports whether it waited.
func (m *MachineRecord) leaveQueues(a *Lock, exclusive ...bool) (waited bool) {
	s := m.state
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	retryWhole(func(whole bool) nfs4.Status {
		s.lockHolder(&m.holder, &deferred.hold, whole)
		defer s.unlock(&deferred.hold)
		f := s.lockFile(a.Key, &deferred.hold).files[a.Key]
		for _, is := range exclusive {
			w := f.findWaiting(&m.holder, string(a.Owner), &Lock{Range: a.Range, Exclusive: is})
			switch {
			case w == nil:
			case !deferred.isWhole():
				return statusNeedsState
			default:
				waited = true
				s.leaveQueue(w, &deferred)
			}
		}
		if waited {
			m.files[a.Key].removeIfUnused()
		}
		return nfs4.OK
	})
	return waited
}

// StopWaitingAt removes all owners of the Machines at an address from the queues for
// locks: each of them would delay the owners after it while the server waits for the
// Machines' host. local is the server address that the Machines call.
func (s *State) StopWaitingAt(addr, local netip.Addr) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.machines {
		s.mu.pauseLocked()
		if m.Addr != addr || m.Local != local {
			continue
		}
		for key, f := range m.files {
			for w := range f.waits {
				s.leaveQueue(w, &deferred)
				s.mu.pauseLocked()
			}
			if m.files[key] == f {
				f.removeIfUnused()
			}
			s.mu.pauseLocked()
		}
	}
}
