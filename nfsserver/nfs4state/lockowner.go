package nfs4state

import (
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A lockOwnerKey identifies a lock-owner.
type lockOwnerKey struct {
	holder *holder
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
	seqOwner *seqOwner // nil except in NFSv4.0
}

// ownerLocks are a lock-owner's locks through one Open, or all locks of a Machine's owner.
type ownerLocks struct {
	owner *lockOwner
	part  *locks.Part
	ended bool
}

// A lockSet holds the locks of a lock-owner through one Open. When all bytes are
// unlocked, its stateid remains until FREE_STATEID or CLOSE (RFC 8881, Section
// 8.2.4).
type lockSet struct {
	holding
	ownerLocks
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

// newLockSet creates the lockSet of an owner and an Open. owner may be nil.
func (s *State) newLockSet(o *Open, owner *lockOwner, name string) *lockSet {
	set := &lockSet{ownerLocks: o.key.file.newOwnerLocks(&o.client.holder, owner, name)}
	set.client, set.open, set.locks = o.client, o, set
	s.assignStateID(&set.holding, name)
	if q := o.client.v40; q != nil {
		set.seqOwner = q.owners[seqKey{name, true}]
		set.owner.seqOwner = set.seqOwner
		set.seqOwner.useCount++
		if set.seqOwner.sets == nil {
			set.seqOwner.sets = make(map[*lockSet]struct{})
		}
		set.seqOwner.sets[set] = struct{}{}
	}
	if o.locks == nil {
		o.locks = make(map[*lockOwner]*lockSet)
	}
	o.locks[set.owner] = set
	s.holdings.put(set.index, &set.holding)
	return set
}

// newOwnerLocks creates locks of an owner, which may be nil, for a holder.
func (f *file) newOwnerLocks(h *holder, owner *lockOwner, name string) ownerLocks {
	if owner == nil {
		owner = &lockOwner{lockOwnerKey: lockOwnerKey{h, name}, file: f}
		owner.ranges = f.locks.NewOwner(owner)
		if f.owners == nil {
			f.owners = make(map[lockOwnerKey]*lockOwner)
		}
		f.owners[owner.lockOwnerKey] = owner
	}
	owner.setCount++
	h.lockSets++
	return ownerLocks{owner: owner, part: owner.ranges.NewPart()}
}

// endOwnerLocks unlocks all of an owner's bytes, and removes l from its file.
func (s *State) endOwnerLocks(l *ownerLocks, deferred *deferredWork) {
	for l.part.Len() > 0 {
		s.dropLock(l, deferred)
	}
	if l.owner.setCount--; l.owner.setCount == 0 {
		delete(l.owner.file.owners, l.owner.lockOwnerKey)
	}
	l.owner.holder.lockSets--
	l.ended = true
}

// endLocks unlocks all of a lockSet's bytes, and removes it from all tables.
func (s *State) endLocks(set *lockSet, deferred *deferredWork) {
	s.releaseStateID(&set.holding)
	s.endOwnerLocks(&set.ownerLocks, deferred)
	delete(set.open.locks, set.owner)
	if q := set.seqOwner; q != nil {
		q.useCount--
		delete(q.sets, set)
		s.restOwner(q, deferred)
	}
}

// countLocks adds n to the counts of an owner's locks.
func (s *State) countLocks(owner *lockOwner, n int) {
	owner.holder.locks += n
	if owner.seqOwner != nil {
		owner.seqOwner.locks += n
	}
	s.addUsage(owner.holder.group, lockRanges, n)
}

// A locker locks bytes: a client's Session or a Machine. It is no interface, whose methods would
// make each Lock escape to the heap.
type locker struct {
	session *Session
	machine *MachineRecord // or nil
}

func (by locker) lockHolder() *holder {
	if by.machine != nil {
		return by.machine.lockHolder()
	}
	return by.session.lockHolder()
}

// findLockTarget returns the state that a lock belongs to, or the LOCK's status. The holder and
// the file are locked.
func (by locker) findLockTarget(a *Lock) (lockTarget, nfs4.Status) {
	if by.machine != nil {
		return by.machine.findLockTarget(a)
	}
	return by.session.findLockTarget(a)
}
