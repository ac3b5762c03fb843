package nfs4state

import (
	"container/list"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A Waiting is a lock-owner that was denied a lock and waits for it (RFC 8881,
// Sections 9.6 and 20.11). A file's waiting owners form a queue: when the bytes become
// free, the first one is notified, and gets them if it requests the lock again before
// any other owner. If it does not do so within a quarter of the lease, the next one is
// notified. The notification is only a hint: no bytes are reserved for the owner.
type Waiting struct {
	name   string
	holder *holder
	file   *file
	among  *waitSet      // that has it, while it is queued
	number uint64        // in order of arrival
	since  time.Duration // of the first request

	// State.mu guards these.
	lock       Lock // the last request
	queued     bool
	queuePlace *locks.Request // in the queue
	turnPlace  *locks.Request // in the queue of notified owners, or nil
	waiterElem *list.Element  // a Machine's, in State.lockWaiters
	deniedAt   time.Duration  // when the owner was last denied the lock
	turnEnds   time.Duration  // until when the notified owner may request the lock; 0: not notified
	heldOnHost bool           // a host process held the lock
	missedTurn bool           // a Machine missed its turn: its storage is slow, or hangs
}

// A waitSet has the owners that wait for locks of a file through one Open, or those of one Machine.
type waitSet map[*Waiting]struct{}

// Owner returns the lock-owner's name.
func (w *Waiting) Owner() string { return w.name }

// maxWaiting bounds a file's waiting owners.
const maxWaiting = 2048

// turnsPerLease is the number of turns in a lease.
const turnsPerLease = 4

// enqueueWaiter adds the owner of a denied LOCK to the queue, or keeps it there, and
// returns the LOCK's status. It is statusEnding if the lock has become free since it was denied.
// If a limit is reached, the owner is not notified: a Machine gets NFS4ERR_DELAY, and other
// clients poll anyway.
func (s *State) enqueueWaiter(by locker, a *Lock, d *Denied) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, full := by.lockHolder(), nfs4.ErrDenied
	if c.client == nil {
		full = nfs4.ErrDelay
	}
	l, status := by.findLockTarget(a)
	if status != nfs4.OK || c.ended || l.open != nil && !l.open.notifies {
		return full
	}
	name := string(a.Owner)
	if l.owner != nil {
		name = l.owner.name
	}
	f := l.file
	heldOnHost := *d == s.hostDenied(d.Range, locks.KindOf(d.Exclusive))
	if !heldOnHost && !f.isDeniedInTable(c, l.owner, a) {
		return statusEnding
	}
	w := f.findWaiting(c, name, a)
	if a.For == nil && s.wouldDeadlock(&Waiting{name: name, holder: c, file: f, lock: *a}) {
		if w != nil {
			s.stopWaiting(w)
			l.machine.files[a.Key].removeIfUnused()
		}
		return nfs4.ErrDeadlock
	}
	lock := *a
	lock.Owner, lock.Handle = nil, nil // they alias a message
	if w == nil {
		if !s.mayWait(f, c, stateIDCost(len(name))) || l.machine != nil && !s.hasQuota(c.group, stateIDs, l.cost) {
			return full
		}
		w = &Waiting{name: name, holder: c, lock: lock, since: s.config.Now()}
		if l.machine != nil {
			used := l.machine.useFile(a.Key, a.Handle, a.Mark)
			w.file, w.among = used.file, &used.waits
		} else {
			w.file, w.among = f, &l.open.waits
		}
		f = w.file
		f.addWaiting(w)
		s.waitingFiles[f] = struct{}{}
		s.addLockWaiter(w)
		s.addUsage(c.group, waitingOwners, stateIDCost(len(name)))
	}
	f.queue.endTurn(w)
	w.lock, w.deniedAt = lock, s.config.Now()
	w.heldOnHost = heldOnHost
	return nfs4.ErrDenied
}

// isDeniedInTable reports whether another owner's lock, or turn, keeps an owner (nil if it has no locks
// yet) from a lock.
func (f *file) isDeniedInTable(h *holder, owner *lockOwner, a *Lock) bool {
	if f == nil {
		return false
	}
	if _, first := f.firstInTurn(h, string(a.Owner), a); first {
		return true
	}
	var ranges *locks.Owner
	if owner != nil {
		ranges = owner.ranges
	}
	_, denied := f.locks.Conflict(ranges, a.Range, a.Exclusive)
	return denied
}

// maxChain bounds a chain of owners each of which waits for the next, and maxAsked the
// locks that each of them waits for. Together they bound the cost of wouldDeadlock.
const (
	maxChain = 10
	maxAsked = 64
)

// wouldDeadlock reports whether a Machine's owner would wait for an owner that waits for it,
// directly or through others. If several owners conflict with a lock, it considers the first, as
// Linux does; if an owner waits for many locks, those that it has waited for longest. NFSv4
// clients count as not waiting: they poll, and can stop.
func (s *State) wouldDeadlock(w *Waiting) bool {
	if w.holder.client != nil || w.holder.locks == 0 {
		return false
	}
	first := w.ownerKey()
	seen := []lockOwnerKey{first}
	for next := []*Waiting{w}; len(next) > 0; {
		w, next = next[0], next[1:]
		if w.file == nil {
			continue // only a host process has locked it
		}
		l, denied := w.file.locks.Conflict(w.ownerLocks(), w.lock.Range, w.lock.Exclusive)
		if !denied {
			continue
		}
		owner := l.Owner.Tag.(*lockOwner).lockOwnerKey
		switch {
		case owner == first:
			return true
		case len(seen) < maxChain && owner.holder.client == nil && !slices.Contains(seen, owner):
			seen = append(seen, owner)
			if asked := s.lockWaiters[owner]; asked != nil {
				e := asked.Front()
				for n := 0; e != nil && n < maxAsked; n++ {
					s.mu.countEntry()
					next = append(next, e.Value.(*Waiting))
					e = e.Next()
				}
			}
		}
	}
	return false
}

// ownerKey returns the owner's key.
func (w *Waiting) ownerKey() lockOwnerKey { return lockOwnerKey{w.holder, w.name} }

// mayWait reports whether a holder's owner may wait for a lock of f. As with other
// resources, a holder gets at most as much as is free.
func (s *State) mayWait(f *file, h *holder, cost int) bool {
	all, own := 0, 1
	if f != nil && f.queue != nil {
		all, own = len(f.queue.byLock), 1+f.queue.holders[h]
	}
	return own <= maxWaiting-all && s.hasQuota(h.group, waitingOwners, cost)
}

// stopWaiting removes w from its queue.
func (s *State) stopWaiting(w *Waiting) {
	f := w.file
	f.removeWaiting(w)
	s.removeLockWaiter(w)
	s.addUsage(w.holder.group, waitingOwners, -stateIDCost(len(w.name)))
	if f.queue == nil {
		delete(s.waitingFiles, f)
	}
}

// removeGranted removes the owner of a granted lock from the queue.
func (s *State) removeGranted(f *file, h *holder, name string, a *Lock) {
	if w := f.findWaiting(h, name, a); w != nil {
		s.stopWaiting(w)
	}
}

// leaveQueue removes an owner that no longer waits from its queue: another one may now have
// its turn.
func (s *State) leaveQueue(w *Waiting, deferred *deferredWork) {
	deferred.noteFreed(w.file, w.lock.Range)
	s.stopWaiting(w)
}

// ownerLocks returns the owner's locks on the file, or nil.
func (w *Waiting) ownerLocks() *locks.Owner {
	if o := w.file.owners[w.ownerKey()]; o != nil {
		return o.ranges
	}
	return nil
}

// MayNotify reports whether owners that wait for locks through an Open are
// notified: the client could be called back at an OPEN.
func (s *State) MayNotify(o *Open) bool {
	var h hold
	s.lockClient(o.client, &h, false)
	defer s.unlock(&h)
	o.notifies = o.notifies || o.client.canCallBack()
	return o.notifies
}

// IsTurnOf reports whether it is still the turn of a notified owner.
func (s *State) IsTurnOf(w *Waiting) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.queued && w.turnEnds > s.config.Now()
}

// HasLockWaiters reports whether any owner waits for a lock.
func (s *State) HasLockWaiters() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waitingFiles) > 0
}

// NotifyLockWait makes the State call f after a lock-owner has begun to wait: PollLocks must then be
// called. No call may arrive before.
func (s *State) NotifyLockWait(f func()) { s.lockWait = f }

// PollLocks polls for locks that became free without a client's call: locks held
// by expired clients or host processes, and those whose notified owner has missed
// its turn. It reports whether any owner waits. While that is so, the caller must
// call PollLocks once a second.
func (s *State) PollLocks() bool {
	var deferred deferredWork
	s.mu.Lock()
	local := make(map[any][]*Waiting)
	for f := range s.waitingFiles {
		for _, w := range f.queue.byLock {
			switch {
			case w.turnEnds > 0:
			case w.heldOnHost:
				local[w.lock.Storage] = append(local[w.lock.Storage], w)
			default:
				s.findConflict(f, f.owners[w.ownerKey()], w.holder, w.lock.Range, w.lock.Exclusive, &deferred)
			}
			s.mu.pauseLocked()
		}
		deferred.noteFreed(f, locks.Range{End: locks.ToEnd})
		s.mu.pauseLocked()
	}
	for storage, list := range local {
		if _, busy := s.hostLockPolls[storage]; !busy {
			s.hostLockPolls[storage] = struct{}{}
			s.background.Go(func() { s.pollHostLocks(storage, list) })
		}
	}
	s.mu.Unlock()
	s.runDeferred(deferred)
	return s.HasLockWaiters()
}

// pollHostLocks checks whether host processes still hold the locks that owners wait
// for, on one storage.
func (s *State) pollHostLocks(storage any, list []*Waiting) {
	for _, w := range list {
		s.mu.Lock()
		a := w.lock
		s.mu.Unlock()
		if s.lockedOnHost(&a) {
			continue
		}
		var deferred deferredWork
		s.mu.Lock()
		w.heldOnHost = false
		deferred.noteFreed(w.file, a.Range)
		s.mu.Unlock()
		s.runDeferred(deferred)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.hostLockPolls, storage)
}

// lockedOnHost reports whether a host process holds a conflicting lock.
func (s *State) lockedOnHost(a *Lock) bool {
	h := s.acquireHostFile(a)
	defer s.releaseHostFile(h)
	if h.openLocks(a) != nfs4.OK {
		return false // the client's LOCK returns the error
	}
	_, found, status := h.locks.TestLock(a.Range, locks.KindOf(a.Exclusive))
	return status == nfs4.OK && found != locks.None
}
