package nfs4state

import (
	"math"
	"time"
)

// anyRenewal, as the time for endClient, removes a client even if its lease has
// not expired.
const anyRenewal time.Duration = math.MaxInt64

// endClient removes a confirmed client with all its state. If a call has renewed the
// lease at the time since or later, if a call is running, or if background work for the
// client has not finished, endClient returns false and changes nothing else. It ignores
// one running call of the session own, which requests the removal.
//
// The client's calls fail from now on. It may have too much state to remove at once:
// endAllState removes the rest, in steps. Until then calls that conflict with that state
// get statusEnding.
func (s *State) endClient(c *client, own *Session, since time.Duration, deferred *deferredWork) bool {
	s.mu.countSilentFor(&c.holder)
	if c.renewedAt >= since || !killSessions(c.sessions, own, since, c.stopTasks) {
		return false
	}
	c.endRecord = s.recordClientGone(c.key)
	for _, session := range c.sessions {
		s.endSession(session)
	}
	c.sessions = nil
	if c.v40 != nil {
		s.expired.ids.add(c.id)
	}
	o := s.owners[c.key]
	o.confirmed = nil
	s.forgetClient(c, o)
	s.beginEnding(&c.holder, deferred)
	return true
}

// beginEnding begins to remove the state of a removed holder.
func (s *State) beginEnding(h *holder, deferred *deferredWork) {
	s.endingHolders = append(s.endingHolders, h)
	deferred.unfinished = !s.endStateStep(deferred)
}

// statusEnding is an internal status. The call conflicts with state of a removed client, or
// with a LOCK that runs in steps, or a lock that was denied has become free: the caller releases
// State.mu, calls endAllState and awaitSteppedLock, and starts again.
const statusEnding = statusNotStored - 1

// endAllState removes the remaining state of removed holders, in steps. No lock may be
// held.
func (s *State) endAllState() {
	for done := false; !done; {
		var deferred deferredWork
		s.mu.Lock()
		done = s.endStateStep(&deferred)
		s.mu.Unlock()
		deferred.unfinished = false
		s.runDeferred(deferred)
	}
}

// endStateStep removes state of removed holders until State.mu should be released, and
// reports whether nothing is left.
func (s *State) endStateStep(deferred *deferredWork) bool {
	var ended deferredWork
	for len(s.endingHolders) > 0 && s.endHolderStep(s.endingHolders[0], &ended) {
		s.addUsage(s.endingHolders[0].group, clientRecords, -1)
		s.endingHolders = s.endingHolders[1:]
	}
	if len(s.endingHolders) == 0 {
		s.endingHolders = nil
	}
	if ended.firstFile != nil {
		deferred.endedFiles = append(append(deferred.endedFiles, ended.firstFile), ended.files...)
	}
	deferred.syncLater = append(deferred.syncLater, ended.syncHosts...)
	deferred.freedFiles = append(deferred.freedFiles, ended.freedFiles...)
	deferred.pendingReleases = append(deferred.pendingReleases, ended.pendingReleases...)
	return len(s.endingHolders) == 0
}

// endHolderStep removes state of one removed holder until State.mu should be released, and reports
// whether nothing is left.
func (s *State) endHolderStep(h *holder, deferred *deferredWork) bool {
	if h.client != nil {
		return s.endClientStep(h.client, deferred)
	}
	return s.endMachineStep(h.machine, deferred)
}

// endClientStep removes state of one removed client until State.mu should be released, and
// reports whether nothing is left.
func (s *State) endClientStep(c *client, deferred *deferredWork) bool {
	for _, o := range c.opens {
		s.holdGrants(o.Key, c.endRecord) // before the first step: another call may get what it releases
		if !s.shedOpen(o, deferred) {
			return false
		}
		s.rememberExpired(&o.holding)
		s.closeOpen(o, deferred)
	}
	for _, d := range c.delegations {
		if len(d.locks) > 0 {
			s.holdGrants(d.Key, c.endRecord)
		}
		if !s.shedOpen(&d.Open, deferred) {
			return false
		}
		s.rememberExpired(&d.holding)
		s.endDelegation(d, c.endRecord, deferred)
	}
	for h := range c.revoked {
		if s.mu.shouldPause() {
			return false
		}
		s.mu.countEntry()
		s.freeRevoked(h)
	}
	return c.v40 == nil || s.endOwners(c)
}

// shedOpen removes an Open's waiting owners and locks, of which there may be many, until
// the State should be unlocked. It reports whether nothing is left: then the caller may call
// closeOpen.
func (s *State) shedOpen(o *Open, deferred *deferredWork) bool {
	if !s.shedWaits(o.waits, deferred) {
		return false
	}
	for _, set := range o.locks {
		if !s.shedLocks(&set.ownerLocks, deferred) {
			return false
		}
		s.rememberExpired(&set.holding)
		set.revokedStatus = o.revokedStatus
		s.endLocks(set, deferred)
	}
	return s.visitEntry(deferred)
}

// shedWaits removes waiting owners from their queue. Like shedLocks, it returns false if the State
// should be unlocked before the rest.
func (s *State) shedWaits(waits waitSet, deferred *deferredWork) bool {
	for w := range waits {
		if !s.visitEntry(deferred) {
			return false
		}
		s.leaveQueue(w, deferred)
	}
	return true
}

// shedLocks unlocks an owner's locks.
func (s *State) shedLocks(l *ownerLocks, deferred *deferredWork) bool {
	for l.part.Len() > 0 {
		if s.entriesIn(&deferred.hold).shouldPause() {
			return false
		}
		s.dropLock(l, deferred)
	}
	return s.visitEntry(deferred)
}

// visitEntry counts an entry, or returns false if the State should be unlocked before.
func (s *State) visitEntry(deferred *deferredWork) bool {
	entries := s.entriesIn(&deferred.hold)
	if entries.shouldPause() {
		return false
	}
	entries.countEntry()
	return true
}

// dropLock unlocks one of an owner's locks.
func (s *State) dropLock(l *ownerLocks, deferred *deferredWork) {
	s.entriesIn(&deferred.hold).countEntry()
	r := l.part.DropOne()
	s.countLocks(l.owner, -1)
	l.owner.file.queueHostUnlock(r, deferred)
	deferred.noteFreed(l.owner.file, r)
}

// rememberExpired remembers a stateid of a removed NFSv4.0 client.
func (s *State) rememberExpired(h *holding) {
	if c := h.client; c.ended && c.v40 != nil {
		s.expired.stateids.add(h.other)
	}
}
