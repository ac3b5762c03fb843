package nfs4state

import (
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// A file has all opens and SHAREs of one object, for share reservations (RFC 8881, Section 9.7),
// and its locks. Its shard guards it.
type file struct {
	key         string
	shard       *fileShard
	opens       []*Open
	machines    map[*MachineRecord]*machineFile
	delegations []*Delegation
	modeCounts  modeCounts
	manyHolders bool // modeCounts has had more holders than maxSpareHolders

	locks  locks.Object
	owners map[lockOwnerKey]*lockOwner
	queue  *waitQueue // nil: no owner waits
}

// An openKey identifies an Open within its client.
type openKey struct {
	owner  string
	file   *file
	handle string
}

// An Open is an object that a client's open-owner has opened by one filehandle.
// OPENs of the same owner by the same filehandle share the Open and its
// stateid.
type Open struct {
	// File is the server's handle for access to the object, as passed to
	// State.OpenFile. Config.Release gets it at the end.
	File any

	// Key identifies the object, as passed to State.OpenFile.
	Key string

	holding
	key       openKey
	fileIndex int // index in file.opens
	modes     atomic.Uint32

	// The client's part of the State and the file's shard guard these.
	requestedModes uint16 // bit m is set if an OPEN requested modes m
	trials         []*Trial
	reverting      bool // see revertTrial: no OPEN may use o

	notifies bool // see MayNotify
	locks    map[*lockOwner]*lockSet
	waits    waitSet // owners that wait for locks through o
}

// Access returns o's access modes: ShareRead, ShareWrite or both.
func (o *Open) Access() uint32 { return o.modes.Load() & nfs4.ShareBoth }

// setRequestedModes sets the modes of o's OPENs, and updates the counts. 0
// means no OPEN.
func (s *State) setRequestedModes(o *Open, asked uint16) {
	var now uint32
	for m := range uint32(1 << modeBits) {
		if asked&(1<<m) != 0 {
			now |= m
		}
	}
	o.requestedModes = asked
	s.replaceModes(o.key.file, &o.client.holder, o.modes.Swap(now), now)
}

// An OpenFile holds the arguments of State.OpenFile.
type OpenFile struct {
	Owner        []byte
	Key          string // the object, the same for all its filehandles
	Handle       string // may be empty if the object has a single filehandle
	Access, Deny uint32 // ShareRead and ShareWrite
	Reclaim      bool   // CLAIM_PREVIOUS
	Claimed      bool   // the OPEN uses the client's delegation

	// Delegated is the delegation that the client had, for Reclaim.
	Delegated nfs4.Delegation
	Trial     *Trial       // for an OPEN that may still fail, or nil
	Aside     yieldingCall // may be nil
}

// MayOpen returns an error if an OPEN would fail for any object, so that the OPEN
// creates nothing. It ignores Owner, Key, Handle and Trial.
func (s *State) MayOpen(session *Session, a *OpenFile) nfs4.Status {
	return s.retryUntilStored(a.Aside, func(whole bool) nfs4.Status {
		var h hold
		s.lockClient(session.client, &h, whole)
		defer s.unlock(&h)
		if a.Key != "" {
			s.lockFile(a.Key, &h)
		}
		if status := s.mayOpen(session.client, a); status != nfs4.OK {
			return status
		}
		return s.recordState(&session.client.holder, a.recordKinds(), a.Key, &h)
	})
}

// recordKinds returns the kinds of state that an OPEN's record must have.
func (a *OpenFile) recordKinds() (had stateKinds) {
	if a.Deny != 0 {
		had |= hadDeny
	}
	switch a.Delegated {
	case nfs4.DelegateRead:
		had |= hadReads
	case nfs4.DelegateWrite:
		had |= hadWrites
	}
	return had
}

func (s *State) mayOpen(c *client, a *OpenFile) nfs4.Status {
	switch {
	case c.ended:
		return nfs4.ErrBadSession
	case a.Reclaim:
		return s.mayReclaim(&c.holder, a.recordKinds())
	case s.claimsDelegation(c, a): // nothing can be reclaimed that conflicts with the delegation
	case s.mustReclaimFirst(&c.holder), s.checkGrace() && (a.Deny != 0 || s.ledger.staleDeny+s.ledger.staleWrites > 0):
		return nfs4.ErrGrace
	}
	return nfs4.OK
}

// OpenFile opens an object for an owner of a session's client, or adds an OPEN
// to the owner's Open of that object and filehandle (RFC 8881, Sections 9.9 and
// 18.16). It returns this OPEN's stateid, because another OPEN may follow at
// once. If the Open is new, its seqid is 1 and attach becomes its File.
// Otherwise attach is passed to Config.Merge if the OPEN succeeds, and to
// Config.Release.
func (s *State) OpenFile(session *Session, a *OpenFile, attach any) (o *Open, id nfs4.StateID, status nfs4.Status) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	used := false
	status = s.retryUntilStored(a.Aside, func(whole bool) (status nfs4.Status) {
		o, id, used, status = s.tryOpen(session.client, a, attach, whole, &deferred)
		return status
	})
	if !used {
		deferred.addFile(attach)
	}
	return o, id, status
}

// tryOpen tries an OPEN once, and reports whether attach is used as a File.
func (s *State) tryOpen(c *client, a *OpenFile, attach any, whole bool, deferred *deferredWork) (o *Open, id nfs4.StateID, used bool, status nfs4.Status) {
	s.lockClient(c, &deferred.hold, whole)
	defer s.unlock(&deferred.hold)
	sh := s.lockFile(a.Key, &deferred.hold)
	if a.Deny != 0 {
		s.denyingOpens.Add(1) // see BeginSpecial
		defer s.denyingOpens.Add(-1)
	}
	o, fresh, status := s.openFile(c, a, sh, deferred)
	switch {
	case status != nfs4.OK:
		return nil, nfs4.StateID{}, false, status
	case !fresh:
		s.config.Merge(o.File, attach)
	}
	if fresh {
		o.File = attach
		s.holdings.put(o.index, &o.holding)
	}
	mode := shareModes(a.Access, a.Deny)
	if a.Trial != nil {
		o.addTrial(a.Trial, mode)
	} else {
		o.confirmModes(mode)
	}
	s.setRequestedModes(o, o.requestedModes|1<<mode)
	o.bumpSeqID()
	return o, o.StateID(), fresh, nfs4.OK
}

// openFile returns the Open for an OPEN, and creates it if necessary: then
// fresh is set.
func (s *State) openFile(c *client, a *OpenFile, sh *fileShard, deferred *deferredWork) (o *Open, fresh bool, status nfs4.Status) {
	if status := s.mayOpen(c, a); status != nfs4.OK {
		return nil, false, status
	}
	if a.Access == 0 || (a.Access|a.Deny)&^nfs4.ShareBoth != 0 {
		return nil, false, nfs4.ErrInval
	}
	f := sh.files[a.Key]
	if status := s.mayShare(c, f, a, deferred); status != nfs4.OK {
		return nil, false, status
	}
	switch written := f.isWrittenByOther(c); {
	case written && f.delegations[0].client.ended:
		return nil, false, statusEnding
	case written && a.Reclaim:
		return nil, false, nfs4.ErrReclaimConflict
	case a.Deny != 0 && s.hasSpecialUse(a.Key, a.Deny), written: // granted since the caller checked
		return nil, false, nfs4.ErrDelay
	}
	if f != nil {
		switch o = c.opens[openKey{string(a.Owner), f, a.Handle}]; {
		case o == nil:
		case o.reverting:
			return nil, false, nfs4.ErrDelay
		default:
			return o, false, s.recordState(&c.holder, a.recordKinds(), a.Key, &deferred.hold)
		}
	}
	cost := stateIDCost(len(a.Owner))
	if s.needsStateFor(c.group, stateIDs, cost, &deferred.hold) {
		return nil, false, statusNeedsState
	}
	enough := s.ensureQuota(c.group, stateIDs, cost, deferred)
	switch {
	case c.ended:
		return nil, false, nfs4.ErrBadSession // its lease had expired, and it was removed
	case len(c.opens) >= maxOpens:
		return nil, false, c.fullStatus()
	case !enough:
		return nil, false, s.overQuotaStatus()
	}
	if status := s.recordState(&c.holder, a.recordKinds(), a.Key, &deferred.hold); status != nfs4.OK {
		return nil, false, status
	}
	o = s.newOpen(c, string(a.Owner), a.Key, a.Handle, sh)
	if c.v40 != nil {
		o.seqOwner = c.v40.owners[seqKey{o.key.owner, false}]
		o.seqOwner.setUse(o.seqOwner.useCount+1, o.seqOwner.principal)
		o.seqOwner.onlyOpen = o
	}
	return o, true, nfs4.OK
}

// newOpen creates an Open without modes.
func (s *State) newOpen(c *client, owner, key, handle string, sh *fileShard) *Open {
	f := sh.files[key]
	if f == nil {
		f = sh.newFile(key)
	}
	o := &Open{Key: key, key: openKey{owner, f, handle}, fileIndex: len(f.opens)}
	o.client, o.open = c, o
	s.assignStateID(&o.holding, owner)
	c.opens[o.key] = o
	f.opens = append(f.opens, o)
	return o
}

// Close closes an Open and releases the locks through it (RFC 8881, Section
// 18.2).
func (s *State) Close(session *Session, id *nfs4.StateID) nfs4.Status {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	for {
		var done bool
		status := retryWhole(func(whole bool) (status nfs4.Status) {
			status, done = s.closeStep(session, id, whole, &deferred)
			return status
		})
		if done {
			return status
		}
	}
}

// closeStep closes an Open until the State should be unlocked, and reports whether it is
// done.
func (s *State) closeStep(session *Session, id *nfs4.StateID, whole bool, deferred *deferredWork) (status nfs4.Status, done bool) {
	s.lockClient(session.client, &deferred.hold, whole)
	defer s.unlock(&deferred.hold)
	o, status := s.findOpen(session, id)
	switch {
	case status != nfs4.OK:
		return status, true
	case o.revokedStatus != nfs4.OK: // by Revoke, which continues
		return o.revokedStatus, true
	case len(o.waits) > 0 && !deferred.isWhole():
		return statusNeedsState, false
	}
	s.lockFile(o.Key, &deferred.hold)
	if !s.shedOpen(o, deferred) {
		return nfs4.OK, false
	}
	o.keepAfterClose = o.seqOwner != nil
	s.closeOpen(o, deferred)
	return nfs4.OK, true
}

// closeOpen removes o and its locks from all tables.
func (s *State) closeOpen(o *Open, deferred *deferredWork) {
	for w := range o.waits {
		s.leaveQueue(w, deferred)
	}
	for _, l := range o.locks {
		s.endLocks(l, deferred)
	}
	s.releaseStateID(&o.holding)
	delete(o.client.opens, o.key)
	s.setRequestedModes(o, 0)
	f := o.key.file
	last := len(f.opens) - 1
	f.opens[o.fileIndex] = f.opens[last]
	f.opens[o.fileIndex].fileIndex = o.fileIndex
	f.opens[last] = nil
	f.opens = f.opens[:last]
	f.removeIfUnused()
	deferred.addFile(o.File)
	if q := o.seqOwner; q != nil {
		q.setUse(q.useCount-1, q.principal)
		if q.onlyOpen == o {
			q.onlyOpen = nil
		}
		s.restOwner(q, deferred)
	}
}

// Downgrade implements OPEN_DOWNGRADE (RFC 8881, Section 18.18): access and
// deny must be the union of some OPENs' modes.
func (s *State) Downgrade(session *Session, id *nfs4.StateID, access, deny uint32) (nfs4.StateID, nfs4.Status) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.lockClient(session.client, &deferred.hold, false)
	defer s.unlock(&deferred.hold)
	o, status := s.findOpen(session, id)
	if status != nfs4.OK {
		return nfs4.StateID{}, status
	}
	s.lockFile(o.Key, &deferred.hold)
	// All OPENs within the new modes remain.
	var rest uint16
	var union uint32
	within := shareModes(access, deny)
	for m := range uint32(1 << modeBits) {
		if o.requestedModes&(1<<m) != 0 && m&^within == 0 {
			rest |= 1 << m
			union |= m
		}
	}
	if access == 0 || union != within {
		return nfs4.StateID{}, nfs4.ErrInval
	}
	s.setRequestedModes(o, rest)
	o.endDowngradedTrials(rest)
	deferred.addFile(s.config.Narrow(o.File, access))
	o.bumpSeqID()
	return o.StateID(), nfs4.OK
}
