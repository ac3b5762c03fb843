package nfs4state

import (
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Delegation lets a client open a file for reading, and read it from its cache,
// without a call (RFC 8881, Section 10.4). Its stateid can be used for READ and, over
// NFSv4.2, LOCK like that of an open. A write Delegation also lets the client write and lock the file
// in its cache; no other client then has the file open or delegated.
type Delegation struct {
	// Open is used to read with the stateid. It is not one of the client's
	// opens.
	Open

	// Referring is the call that got the Delegation.
	Referring nfs4.ReferringCalls

	fileIndex int // index in file.delegations; the file's shard guards it

	// State.mu guards these.
	recalled bool
	revokeAt time.Duration // after a recall: when the Delegation is revoked
}

// Writes reports whether d is a write delegation.
func (d *Delegation) Writes() bool { return d.Access()&nfs4.ShareWrite != 0 }

// ClientID returns the ID of the client.
func (d *Delegation) ClientID() uint64 { return d.client.id }

// A Delegate holds the arguments of State.Delegate.
type Delegate struct {
	Key       string // the object's key
	Handle    string // a copy of the filehandle, for the recall
	Referring nfs4.ReferringCalls
	Reclaim   bool // CLAIM_PREVIOUS
	Write     bool // a write delegation
	Aside     yieldingCall
}

// recordKinds returns the kind of state that a delegation's record must have.
func (a *Delegate) recordKinds() stateKinds {
	if a.Write {
		return hadWrites
	}
	return hadReads
}

// MayDelegate returns OK if a session's client may get a delegation for an object
// that it has just opened: it can be called back, need not reclaim state, and no
// client has the object open for writing. For a write delegation, no other client may
// have the object open. State.Delegate checks again. NFS4ERR_DELAY means that a limit
// is reached, and NFS4ERR_EXIST that the client already has a delegation for it.
func (s *State) MayDelegate(session *Session, key string, write bool) nfs4.Status {
	return retryWhole(func(whole bool) nfs4.Status {
		var h hold
		s.lockClient(session.client, &h, whole)
		defer s.unlock(&h)
		sh := s.lockFile(key, &h)
		return s.mayDelegate(session.client, sh.files[key], &Delegate{Key: key, Write: write}, &h)
	})
}

// DelegationType returns the type of the delegation that a session's client has for
// an object.
func (s *State) DelegationType(session *Session, key string) nfs4.Delegation {
	var h hold
	s.lockClient(session.client, &h, false)
	defer s.unlock(&h)
	switch d := session.client.delegations[s.lockFile(key, &h).files[key]]; {
	case d == nil:
		return nfs4.DelegateNone
	case d.Writes():
		return nfs4.DelegateWrite
	}
	return nfs4.DelegateRead
}

// ChooseForRecall chooses a client that should return some of its delegations, so that
// others can have some: the client with the most delegations, in the group of a
// session's client, or among all clients if session is nil. It returns 0 if that
// client was chosen less than a lease ago, and otherwise the number of delegations
// that the client may keep, and the types that it has (RFC 8881, Section 20.6).
// Clients of NFSv4.0 have no CB_RECALL_ANY and are not chosen.
func (s *State) ChooseForRecall(session *Session) (id uint64, keep, types uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var most *client
	for _, c := range s.clients {
		s.mu.pauseLocked()
		if c.v40 != nil || session != nil && c.group != session.client.group {
			continue
		}
		if len(c.delegations) > 0 && (most == nil || len(c.delegations) > len(most.delegations)) {
			most = c
		}
	}
	now := s.config.Now()
	if most == nil || most.ended || now < most.relievedUntil {
		return 0, 0, 0
	}
	most.relievedUntil = now + s.config.Lease
	if most.writeDelegations > 0 {
		types |= nfs4.RecallAnyWrite
	}
	if most.writeDelegations < len(most.delegations) {
		types |= nfs4.RecallAnyRead
	}
	return most.id, uint32(len(most.delegations) / 2), types
}

func (s *State) mayDelegate(c *client, f *file, a *Delegate, h *hold) nfs4.Status {
	switch {
	case c.ended:
		return nfs4.ErrBadSession
	case a.Reclaim:
		if status := s.mayReclaim(&c.holder, a.recordKinds()); status != nfs4.OK {
			return status
		}
	case s.mustReclaimFirst(&c.holder), s.checkGrace():
		return nfs4.ErrGrace
	case !c.canCallBack():
		return nfs4.ErrCBPathDown
	}
	switch {
	case f == nil, !a.Write && len(f.modeCounts[0]) == 0,
		a.Write && len(f.modeCounts[1]) == 0 && !a.Reclaim: // a delegation is reclaimed by any open (RFC 8881, Section 10.2.1)
		return nfs4.ErrStale // closed in the meantime
	case c.delegations[f] != nil:
		return nfs4.ErrExist
	case len(f.modeCounts[denyShift]) > 0, len(f.machines) > 0, !a.Write && len(f.modeCounts[1]) > 0, a.Write && !f.isUsedOnlyBy(c):
		return nfs4.ErrShareDenied
	case s.needsStateFor(c.group, stateIDs, 1, h), s.needsStateFor(c.group, delegatedFiles, 1, h):
		return statusNeedsState
	case !s.hasQuota(c.group, stateIDs, 1), !s.hasQuota(c.group, delegatedFiles, 1):
		return nfs4.ErrDelay
	}
	return nfs4.OK
}

// isUsedOnlyBy reports whether only c uses f. A file with more than maxOwnOpens opens
// counts as shared.
func (f *file) isUsedOnlyBy(c *client) bool {
	if len(f.delegations) > 0 || len(f.opens) > maxOwnOpens || len(f.modeCounts[denyShift+1]) > 0 {
		return false
	}
	for _, held := range f.modeCounts {
		if len(held) > 1 || len(held) == 1 && held[&c.holder] == 0 {
			return false
		}
	}
	return true
}

// maxOwnOpens is the maximum number of opens that a file may have for a write
// delegation.
const maxOwnOpens = 64

// isWrittenByOther reports whether a client other than c has a write delegation of f, which
// may be nil.
func (f *file) isWrittenByOther(c *client) bool {
	return f != nil && len(f.delegations) > 0 && f.delegations[0].Writes() && f.delegations[0].client != c
}

// claimsDelegation reports whether an OPEN needs only a delegation that its client has.
func (s *State) claimsDelegation(c *client, a *OpenFile) bool {
	if !a.Claimed || a.Deny != 0 {
		return false
	}
	if a.Access == nfs4.ShareRead {
		return true
	}
	if a.Key == "" { // the object is not yet known, but some file is delegated so
		return c.writeDelegations > 0
	}
	d := c.delegations[s.fileOf(a.Key)]
	return d != nil && d.Writes()
}

// Delegate grants a delegation to a session's client, which has the object open.
// If the status is OK, attach becomes its File; otherwise Config.Release gets
// it. The caller must make sure that no change to the object is in progress, and
// that later changes call Recall.
func (s *State) Delegate(session *Session, a *Delegate, attach any) (d *Delegation, status nfs4.Status) {
	c := session.client
	status = s.retryUntilStored(a.Aside, func(whole bool) nfs4.Status {
		var h hold
		s.lockClient(c, &h, whole)
		defer s.unlock(&h)
		f := s.lockFile(a.Key, &h).files[a.Key]
		if status := s.mayDelegate(c, f, a, &h); status != nfs4.OK {
			return status
		}
		status := s.recordState(&c.holder, a.recordKinds(), a.Key, &h)
		if status == nfs4.OK {
			d = s.newDelegation(c, f, a, attach)
		}
		return status
	})
	if status != nfs4.OK {
		s.config.Release(attach)
		return nil, status
	}
	return d, nfs4.OK
}

func (s *State) newDelegation(c *client, f *file, a *Delegate, attach any) *Delegation {
	d := &Delegation{Open: Open{File: attach, Key: a.Key, key: openKey{file: f, handle: a.Handle}}, fileIndex: len(f.delegations)}
	d.Referring = a.Referring
	d.modes.Store(nfs4.ShareRead)
	if a.Write {
		d.modes.Store(nfs4.ShareBoth)
		c.writeDelegations++
		s.delegations.writes.Add(1)
	}
	d.client, d.open, d.delegation = c, &d.Open, d
	s.assignStateID(&d.holding, "")
	s.addUsage(c.group, delegatedFiles, 1)
	d.bumpSeqID()
	if c.delegations == nil {
		c.delegations = make(map[*file]*Delegation)
	}
	c.delegations[f] = d
	f.delegations = append(f.delegations, d)
	s.holdings.put(d.index, &d.holding)
	s.delegations.granted.Add(1)
	return d
}

// ReplaceOpen closes the Open that an OPEN has just created, if the delegation that the
// same OPEN was granted can represent it (RFC 9754, Section 4). It returns false, and
// changes nothing, if the client has another open of the object, if the Open denies
// others access, or if the delegation is being recalled.
func (s *State) ReplaceOpen(session *Session, open, delegation *nfs4.StateID) bool {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.lockClient(session.client, &deferred.hold, false)
	defer s.unlock(&deferred.hold)
	o, status := s.findOpen(session, open)
	if status != nfs4.OK || open.SeqID != 1 || o.revokedStatus != nfs4.OK || len(o.locks) > 0 || len(o.waits) > 0 {
		return false
	}
	d, status := s.DelegationOf(session, delegation)
	if status != nfs4.OK || d.recalled || d.key.file != o.key.file {
		return false
	}
	s.lockFile(o.Key, &deferred.hold)
	for bit, held := range o.key.file.modeCounts {
		own := int(o.modes.Load() >> bit & 1)
		if held[&o.client.holder] != own || bit >= denyShift && own > 0 {
			return false
		}
	}
	s.closeOpen(o, &deferred)
	return true
}

// Handle returns the filehandle by which the object was opened.
func (d *Delegation) Handle() nfs4.FH { return nfs4.FH(d.key.handle) }

// endDelegation removes d from all tables. Its File is released when the record
// with that number is stable: then others may change the object.
func (s *State) endDelegation(d *Delegation, record uint64, deferred *deferredWork) {
	f, c := d.key.file, d.client
	s.releaseStateID(&d.holding)
	s.addUsage(c.group, delegatedFiles, -1)
	delete(c.delegations, f)
	if d.Writes() {
		c.writeDelegations--
		s.delegations.writes.Add(-1)
	}
	last := len(f.delegations) - 1
	f.delegations[d.fileIndex] = f.delegations[last]
	f.delegations[d.fileIndex].fileIndex = d.fileIndex
	f.delegations[last] = nil
	f.delegations = f.delegations[:last]
	f.removeIfUnused()
	deferred.deferRelease(d.File, record)
}

// DelegationOf returns the delegation with a stateid of a session's client.
func (s *State) DelegationOf(session *Session, id *nfs4.StateID) (*Delegation, nfs4.Status) {
	h, status := s.findHolding(session, id)
	switch {
	case h == nil:
		return nil, nfs4.ErrBadStateID
	case h.open == nil:
		return nil, status
	case h.delegation == nil:
		return nil, nfs4.ErrBadStateID
	}
	return h.delegation, status
}

// ReturnDelegation implements DELEGRETURN (RFC 8881, Section 18.6), and releases the locks
// through the delegation.
func (s *State) ReturnDelegation(session *Session, id *nfs4.StateID) nfs4.Status {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	for {
		if status, done := s.returnStep(session, id, &deferred); done {
			return status
		}
	}
}

// returnStep returns a delegation until the State should be unlocked, and reports whether it is
// done.
func (s *State) returnStep(session *Session, id *nfs4.StateID, deferred *deferredWork) (status nfs4.Status, done bool) {
	s.lockClient(session.client, &deferred.hold, false)
	defer s.unlock(&deferred.hold)
	d, status := s.DelegationOf(session, id)
	switch {
	case status != nfs4.OK:
		return status, true
	case d.revokedStatus != nfs4.OK: // by revokeDelegation, which continues
		return d.revokedStatus, true
	}
	s.lockFile(d.Key, &deferred.hold)
	if !s.shedOpen(&d.Open, deferred) {
		return nfs4.OK, false
	}
	s.endDelegation(d, 0, deferred)
	return nfs4.OK, true
}

// shedDelegation removes the locks through a delegation, of which there may be many. It returns
// false if the delegation has ended in the meantime. State.mu is held, but released for moments.
func (s *State) shedDelegation(d *Delegation, deferred *deferredWork) bool {
	for !s.shedOpen(&d.Open, deferred) {
		if s.mu.pauseLocked(); !s.IsOutstanding(d) {
			return false
		}
	}
	return true
}

// Recall starts the recall of a delegation, and returns the time that the client
// has to return it. A client whose lease has expired is removed at once. The time
// is then 0, as for a delegation that no longer exists.
func (s *State) Recall(d *Delegation) time.Duration {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.config.Now()
	c := d.client
	switch {
	case s.holdings.get(d.index) != &d.holding:
		return 0
	case c.ended, c.silentFor(now) > s.config.Lease && s.endClient(c, nil, now-s.config.Lease, &deferred):
		if s.IsOutstanding(d) { // the client has much state
			s.holdGrants(d.Key, c.endRecord)
			if s.shedDelegation(d, &deferred) {
				s.endDelegation(d, c.endRecord, &deferred)
			}
			deferred.syncInBackground()
		}
		return 0
	case !d.recalled:
		d.recalled, d.revokeAt = true, now+s.config.Lease
		s.delegations.recalled++
	}
	return max(d.revokeAt-now, 1)
}

// IsOpenForWriting reports whether a delegation's client has the object open for writing. The
// client may have returned the delegation.
func (s *State) IsOpenForWriting(d *Delegation) bool {
	var h hold
	sh := s.shardOf(d.Key)
	s.lockShard(sh, &h, false)
	defer s.unlock(&h)
	f := sh.files[d.Key]
	return f != nil && f.modeCounts[1][&d.client.holder] > 0
}

// IsOutstanding reports whether a client has yet to return a delegation.
func (s *State) IsOutstanding(d *Delegation) bool { return s.holdings.get(d.index) == &d.holding }

// RevokeDelegation revokes a delegation that its client has not returned in time
// (RFC 8881, Section 10.2.1). The client gets NFS4ERR_DELEG_REVOKED until it frees
// the stateid.
func (s *State) RevokeDelegation(d *Delegation) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.IsOutstanding(d) {
		s.revokeDelegation(d, nfs4.ErrDelegRevoked, &deferred)
		deferred.syncInBackground()
	}
}

func (s *State) revokeDelegation(d *Delegation, why nfs4.Status, deferred *deferredWork) {
	if d.client.v40 != nil && why == nfs4.ErrDelegRevoked {
		why = nfs4.ErrAdminRevoked // NFSv4.0 has no other status
	}
	d.revokedStatus = why
	record := s.beginRevoking(&d.Open)
	defer d.endRevoking()
	if !s.shedDelegation(d, deferred) {
		return
	}
	s.delegations.revoked++
	s.endDelegation(d, record, deferred)
}

// HasEarlierDelegations reports whether clients may still rely on delegations that earlier States
// granted, so that nothing may be changed: such a client may still reclaim, or the
// record that ends its right to reclaim is not stable. If the client records are
// lost, any client may rely on a delegation until its lease has expired.
func (s *State) HasEarlierDelegations() bool {
	l := &s.ledger
	if !l.mayTrust.Load() {
		return false
	}
	if s.mayTrustDelegations(&l.staleDelegations) {
		return true
	}
	l.mayTrust.Store(false)
	return false
}

// HasEarlierWriters reports the same as HasEarlierDelegations, but only for write delegations. Clients
// may have changed files in their caches, so others must not read these files.
func (s *State) HasEarlierWriters() bool {
	return s.ledger.mayTrust.Load() && s.mayTrustDelegations(&s.ledger.staleWrites)
}

// mayTrustDelegations reports whether any of the stale clients that the counter counts may still
// reclaim, or whether the record that ends its right is not stable.
func (s *State) mayTrustDelegations(stale *int) bool {
	s.mu.Lock()
	trusted := s.checkGrace() && *stale > 0 || s.config.Now() < s.ledger.unknownEnd
	s.mu.Unlock()
	if !trusted && s.ledger.storedRecords.Load() < s.ledger.trustBarrier.Load() {
		s.beginWrite()
		return true
	}
	return trusted
}

// pendingRelease is the File of an ended delegation. It is kept until the record with
// that number is stable: then the object may be changed.
type pendingRelease struct {
	file   any
	record uint64
}

func (r *deferredWork) deferRelease(file any, record uint64) {
	r.pendingReleases = append(r.pendingReleases, pendingRelease{file, record})
}

// releasePending releases the Files whose records are stable. A goroutine waits
// for the other records; if the journal fails, Sweep tries again.
func (s *State) releasePending(list []pendingRelease) {
	list = s.releaseStored(list)
	if len(list) == 0 {
		return
	}
	s.background.Go(func() {
		s.storeQueue()
		list := s.releaseStored(list)
		s.mu.Lock()
		ended := s.ledger.retired.Load()
		if !ended {
			s.pendingReleases = append(s.pendingReleases, list...)
		}
		s.mu.Unlock()
		if ended {
			s.releaseStored(list)
		}
	})
}

// releaseStored releases the Files whose records are stable, and returns the
// others.
func (s *State) releaseStored(list []pendingRelease) []pendingRelease {
	return slices.DeleteFunc(list, func(w pendingRelease) bool {
		stored := w.record <= s.ledger.storedRecords.Load() || s.ledger.retired.Load()
		if stored {
			s.config.Release(w.file)
		}
		return stored
	})
}
