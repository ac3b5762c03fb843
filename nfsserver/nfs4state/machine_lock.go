package nfs4state

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// findMachineLockState returns the state that a Machine's lock belongs to, and opens the object
// for its locks if necessary. State.mu is held.
func (s *State) findMachineLockState(c *client, a *Lock) (l lockTarget, status nfs4.Status) {
	if a.For != nil && !a.For.queued {
		return l, nfs4.ErrBadStateID
	}
	if l.open, status = s.openForMachine(c, lockOpener, a.Key, a.Handle, a.File); status == nfs4.OK {
		l.owner = l.open.key.file.owners[lockOwnerKey{c, string(a.Owner)}]
		l.set = l.open.locks[l.owner]
	}
	return l, status
}

// Release unlocks bytes in an object for an owner on a session's Machine, and removes
// the owner from the queue for these bytes. It uses only the arguments Owner, Key and
// Range. NFS4ERR_DELAY means that the Machine has too many locks to split one.
func (s *State) Release(session *Session, a *Lock) nfs4.Status {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	c := session.client
	s.leaveQueues(c, a, &deferred)
	defer s.lockAndTidyMachine(c, a, &deferred)
	return s.unlockInSteps(c, a, func() (*lockSet, nfs4.Status) { return s.findMachineLockSet(c, a), nfs4.OK }, func(*lockSet) {})
}

// leaveQueues removes a Machine's owner from the queue for bytes in an object.
func (s *State) leaveQueues(c *client, a *Lock, deferred *deferredWork) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fileOf(a.Key)
	if f == nil {
		return
	}
	for _, exclusive := range [...]bool{false, true} {
		if w := f.findWaiting(c, string(a.Owner), &Lock{Range: a.Range, Exclusive: exclusive}); w != nil {
			s.leaveQueue(w, deferred)
		}
	}
}

// findMachineLockSet returns a Machine's owner's lockSet for an object, or nil. State.mu is
// held.
func (s *State) findMachineLockSet(c *client, a *Lock) *lockSet {
	f := s.fileOf(a.Key)
	if c.ended || f == nil {
		return nil
	}
	o := c.opens[openKey{owner: lockOpener, file: f}]
	if o == nil {
		return nil
	}
	return o.locks[f.owners[lockOwnerKey{c, string(a.Owner)}]]
}

// RevertLock reverts a lock that was granted to a Waiting that no longer wants it: the
// bytes are locked again as recorded in Lock.Before.
func (s *State) RevertLock(session *Session, a *Lock) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	defer s.tidyMachine(c, a, &deferred)
	set := s.findMachineLockSet(c, a)
	if set == nil {
		return
	}
	before := set.owner.ranges.Len()
	set.owner.ranges.Unlock(a.Range)
	for _, l := range a.Before {
		s.mu.countEntry()
		set.part.Lock(l.Range, l.Exclusive)
	}
	s.countLocks(set, set.owner.ranges.Len()-before)
	deferred.noteFreed(set.owner.file, a.Range)
	set.owner.file.queueHostUnlock(a.Range, &deferred)
}

// StopWaiting removes an owner on a session's Machine from the queue for a lock. It
// returns false if the owner does not wait for that lock.
func (s *State) StopWaiting(session *Session, a *Lock) bool {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	f := s.fileOf(a.Key)
	if f == nil {
		return false
	}
	w := f.findWaiting(c, string(a.Owner), a)
	if w == nil {
		return false
	}
	s.leaveQueue(w, &deferred)
	s.tidyMachine(c, a, &deferred)
	return true
}

// StopWaitingAt removes all owners of the Machines at an address from the queues for
// locks: each of them would delay the owners after it while the server waits for the
// Machines' host. local is the server address that the Machines call.
func (s *State) StopWaitingAt(addr, local netip.Addr) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		s.mu.pauseLocked()
		if m, ok := machineOf(c.key); !ok || m.Addr != addr || m.Local != local {
			continue
		}
		for _, o := range c.opens {
			for w := range o.waits {
				s.leaveQueue(w, &deferred)
				s.tidyMachine(c, &Lock{Key: o.Key, Owner: []byte(w.name)}, &deferred)
				s.mu.pauseLocked()
			}
			s.mu.pauseLocked()
		}
	}
}
