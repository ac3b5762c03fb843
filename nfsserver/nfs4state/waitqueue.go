package nfs4state

import (
	"cmp"
	"container/list"
	"slices"

	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A waitQueue holds a file's waiting owners. Only the holder of State.mu changes it, except for
// freedRanges and notifyPending, which the file's shard guards.
type waitQueue struct {
	byLock  map[waitKey]*Waiting
	holders map[*holder]int // number of entries per holder
	owners  map[lockOwnerKey]*queuedOwner
	arrived uint64 // number of the last Waiting

	all          locks.Queue
	inTurn       locks.Queue // notified owners, except Machines
	machines     locks.Queue // notified Machines
	slowMachines locks.Queue // notified Machines that have missed a turn before

	freedRanges   []locks.Range // ranges for takeOverlapping
	notifyPending bool          // notifyWaiters will be called
}

// A waitKey identifies a Waiting in a file's queue.
type waitKey struct {
	lockOwnerKey
	locks.Range
	exclusive bool
}

// An queuedOwner is an owner that waits for one or more locks of a file.
type queuedOwner struct {
	ranges    *locks.Owner
	waitCount int
}

// addWaiting adds w to f's queue, and creates the queue if necessary.
func (f *file) addWaiting(w *Waiting) {
	q := f.queue
	if q == nil {
		q = &waitQueue{byLock: make(map[waitKey]*Waiting), holders: make(map[*holder]int), owners: make(map[lockOwnerKey]*queuedOwner)}
		f.queue = q
	}
	by := q.owners[w.ownerKey()]
	if by == nil {
		by = &queuedOwner{ranges: f.locks.NewOwner(nil)}
		q.owners[w.ownerKey()] = by
	}
	by.waitCount++
	q.holders[w.holder]++
	q.byLock[w.queueKey()] = w
	q.arrived++
	w.number, w.queued = q.arrived, true
	w.queuePlace = q.all.Add(by.ranges, w.lock.Range, w.lock.Exclusive, w)
	if *w.among == nil {
		*w.among = make(waitSet)
	}
	(*w.among)[w] = struct{}{}
}

// removeWaiting removes w from f's queue, and removes an empty queue.
func (f *file) removeWaiting(w *Waiting) {
	q := f.queue
	w.queued = false
	q.endTurn(w)
	q.all.Remove(w.queuePlace)
	delete(*w.among, w)
	delete(q.byLock, w.queueKey())
	if q.holders[w.holder]--; q.holders[w.holder] == 0 {
		delete(q.holders, w.holder)
	}
	if by := q.owners[w.ownerKey()]; by.waitCount > 1 {
		by.waitCount--
	} else {
		delete(q.owners, w.ownerKey())
	}
	if len(q.byLock) == 0 {
		f.queue = nil
	}
}

// turnQueue returns the queue of notified owners that w belongs to.
func (q *waitQueue) turnQueue(w *Waiting) *locks.Queue {
	switch {
	case w.missedTurn:
		return &q.slowMachines
	case w.holder.client == nil:
		return &q.machines
	}
	return &q.inTurn
}

// beginTurn adds w to its queue of notified owners.
func (q *waitQueue) beginTurn(w *Waiting) {
	if w.turnPlace == nil {
		w.turnPlace = q.turnQueue(w).Add(q.owners[w.ownerKey()].ranges, w.lock.Range, w.lock.Exclusive, w)
	}
}

// endTurn removes w from its queue of notified owners.
func (q *waitQueue) endTurn(w *Waiting) {
	if w.turnEnds = 0; w.turnPlace != nil {
		q.turnQueue(w).Remove(w.turnPlace)
		w.turnPlace = nil
	}
}

// findWaiting returns the Waiting of an owner that requests a lock again, or nil.
func (f *file) findWaiting(h *holder, name string, a *Lock) *Waiting {
	if f == nil || f.queue == nil {
		return nil
	}
	return f.queue.byLock[waitKey{lockOwnerKey{h, name}, a.Range, a.Exclusive}]
}

func (w *Waiting) queueKey() waitKey { return waitKey{w.ownerKey(), w.lock.Range, w.lock.Exclusive} }

// maxFreed bounds the ranges in waitQueue.freedRanges. Beyond that, one range covers all.
const maxFreed = 64

// noteFreed records that bytes in a file may have become free.
func (r *deferredWork) noteFreed(f *file, free locks.Range) {
	q := f.queue
	if q == nil {
		return
	}
	if len(q.freedRanges) == maxFreed {
		for _, d := range q.freedRanges {
			free.Start, free.End = min(free.Start, d.Start), max(free.End, d.End)
		}
		q.freedRanges = q.freedRanges[:0]
	}
	q.freedRanges = append(q.freedRanges, free)
	if !q.notifyPending {
		q.notifyPending = true
		r.freedFiles = append(r.freedFiles, f)
	}
}

// notifyWaiters notifies the owners whose bytes in a file have become free. No lock may be held.
func (s *State) notifyWaiters(f *file) {
	waiting := s.takeOverlapping(f)
	slices.SortFunc(waiting, func(a, b *Waiting) int { return cmp.Compare(a.number, b.number) })
	waiting = slices.Compact(waiting)
	for len(waiting) > 0 {
		var notified []*Waiting
		var callbacks []func(*Waiting) // the owner may replace its Lock in the meantime
		s.mu.Lock()
		for len(waiting) > 0 {
			w := waiting[0]
			s.mu.countEntry()
			if s.startTurn(w) {
				notified, callbacks = append(notified, w), append(callbacks, w.lock.Tell)
			} else if s.mu.shouldPause() {
				break // perhaps before all conflicts were checked
			}
			if waiting = waiting[1:]; s.mu.shouldPause() {
				break
			}
		}
		s.mu.Unlock()
		for i, w := range notified {
			callbacks[i](w)
		}
	}
}

// takeOverlapping returns the owners that wait for bytes in f that have become free since its
// last call. Owners that start to wait during the call have seen what is free.
func (s *State) takeOverlapping(f *file) (found []*Waiting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.queue == nil {
		return nil
	}
	freed := f.queue.freedRanges
	f.queue.freedRanges, f.queue.notifyPending = nil, false
	for _, r := range freed {
		s.mu.countEntry()
		for x := f.queue.all.Overlapping(r, nil); x != nil; x = f.queue.all.Overlapping(r, x) {
			found = append(found, x.Tag.(*Waiting))
			if s.mu.pauseLocked(); f.queue == nil {
				return nil
			}
		}
	}
	return found
}

// startTurn reports whether w must be notified now, and makes it w's turn.
func (s *State) startTurn(w *Waiting) bool {
	now := s.config.Now()
	switch {
	case !w.queued, w.turnEnds > now, w.holder.ended:
		return false
	case w.holder.client == nil && w.turnEnds > 0: // its storage is slow, or hangs: others may go first
		q := w.file.queue
		q.endTurn(w)
		q.arrived++
		w.number, w.missedTurn = q.arrived, true
		return false
	case w.holder.client == nil: // it waits until the lock is granted, and need not poll
	case w.turnEnds > 0, now-w.deniedAt > 2*s.config.Lease: // the owner has given up
		s.stopWaiting(w)
		return false
	}
	if w.heldOnHost || s.isBehindTurn(w) {
		return false
	}
	if _, denied := w.file.locks.Conflict(w.ownerLocks(), w.lock.Range, w.lock.Exclusive); denied {
		return false
	}
	w.file.queue.beginTurn(w)
	w.turnEnds = now + s.config.Lease/turnsPerLease
	return true
}

// isBehindTurn reports whether another owner has its turn for a lock that conflicts with w's.
func (s *State) isBehindTurn(w *Waiting) bool {
	q := w.file.queue
	by, r, exclusive := q.owners[w.ownerKey()].ranges, w.lock.Range, w.lock.Exclusive
	if q.machines.Conflict(by, r, exclusive) != nil || q.slowMachines.Conflict(by, r, exclusive) != nil {
		return true
	}
	for {
		x := q.inTurn.Conflict(by, r, exclusive)
		if x == nil {
			return false
		}
		first := x.Tag.(*Waiting)
		if first.turnEnds > s.config.Now() {
			return true
		}
		if s.mu.countEntry(); s.mu.shouldPause() {
			return true // notifyWaiters tries again
		}
		s.stopWaiting(first) // it has given up
	}
}

// firstInTurn returns the lock of a Machine's waiting owner that has its turn: that lock is
// granted before a later owner, which is willing to wait, gets the bytes. An owner that has
// missed a turn before, because its storage is slow, has no precedence.
func (f *file) firstInTurn(h *holder, name string, a *Lock) (Denied, bool) {
	if f == nil || f.queue == nil {
		return Denied{}, false
	}
	var by *locks.Owner
	if own := f.queue.owners[lockOwnerKey{h, name}]; own != nil {
		by = own.ranges
	}
	x := f.queue.machines.Conflict(by, a.Range, a.Exclusive)
	if x == nil {
		return Denied{}, false
	}
	w := x.Tag.(*Waiting)
	return Denied{w.lock.Range, w.lock.Exclusive, w.holder.id, w.name, true}, true
}

// addLockWaiter adds a lock that a Machine's owner waits for to the owner's list.
func (s *State) addLockWaiter(w *Waiting) {
	if w.holder.client != nil {
		return
	}
	asked := s.lockWaiters[w.ownerKey()]
	if asked == nil {
		asked = new(list.List)
		s.lockWaiters[w.ownerKey()] = asked
	}
	w.waiterElem = asked.PushBack(w)
}

// removeLockWaiter removes a lock from the list of a Machine's owner.
func (s *State) removeLockWaiter(w *Waiting) {
	if w.waiterElem == nil {
		return
	}
	asked := s.lockWaiters[w.ownerKey()]
	if asked.Remove(w.waiterElem); asked.Len() == 0 {
		delete(s.lockWaiters, w.ownerKey())
	}
	w.waiterElem = nil
}
