package nfs4state

import (
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// Revoke revokes each Open and each Delegation for whose File removed returns true, with the
// locks through it. Their stateids return NFS4ERR_ADMIN_REVOKED until the client frees them (RFC
// 8881, Sections 8.5 and 18.38). It also removes what a Machine has of a file, if removed has now
// returned true for the Marks of all filehandles by which the Machine has used the file. Revoke does
// not wait until the host has released the locks: WaitForHostLocks does. removed is called with
// State.mu held.
func (s *State) Revoke(removed func(file any) bool) {
	var deferred, ended deferredWork
	defer func() {
		deferred.firstFile, deferred.files, deferred.syncLater, deferred.pendingReleases = ended.firstFile, ended.files, ended.syncHosts, ended.pendingReleases
		deferred.freedFiles = ended.freedFiles
		s.runDeferred(deferred)
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denyingOpens.Add(1) // until the queue has the records about ended deny modes
	defer s.denyingOpens.Add(-1)
	for i := range s.shards {
		for _, f := range s.shards[i].files {
			s.revokeIn(f, removed, &ended)
		}
	}
}

// revokeIn revokes what a file has for removed. State.mu is held, but released for moments.
func (s *State) revokeIn(f *file, removed func(file any) bool, deferred *deferredWork) {
	for at := len(f.delegations) - 1; at >= 0; at = min(at, len(f.delegations)) - 1 {
		if d := f.delegations[at]; removed(d.File) {
			s.revokeDelegation(d, nfs4.ErrAdminRevoked, deferred)
		}
		s.mu.pauseLocked()
	}
	// When an open is closed, the last one takes its index: it has been visited.
	for at := len(f.opens) - 1; at >= 0; at = min(at, len(f.opens)) - 1 {
		if o := f.opens[at]; removed(o.File) {
			s.revokeOpen(o, deferred)
		}
		s.mu.pauseLocked()
	}
	for _, m := range f.machines {
		if m.removeExports(removed) {
			s.revokeMachineFile(m, deferred)
		}
		s.mu.pauseLocked()
	}
}

// revokeOpen revokes an Open. State.mu is held, but released for moments.
func (s *State) revokeOpen(o *Open, deferred *deferredWork) {
	o.revokedStatus = nfs4.ErrAdminRevoked
	s.beginRevoking(o)
	defer o.endRevoking()
	for !s.shedOpen(o, deferred) {
		if s.mu.pauseLocked(); s.holdings.get(o.index) != &o.holding {
			return // its client has closed it
		}
	}
	s.closeOpen(o, deferred)
}

// beginRevoking records that state of o's client is revoked, before the first step: another call may
// get what it releases. It returns the record's number.
func (s *State) beginRevoking(o *Open) (record uint64) {
	o.client.revoking++
	return s.recordRevoked(&o.client.holder, o.Key)
}

func (o *Open) endRevoking() { o.client.revoking-- }

// recordRevoked updates a holder's record after its state of an object was revoked, and returns the
// number of the record on which grants of the object depend. State.mu is held.
func (s *State) recordRevoked(h *holder, key string) (record uint64) {
	s.rewriteRecord(h)
	record = max(h.lastRecord, h.endRecord)
	s.holdGrants(key, record)
	if h.hadKinds&hadDeny != 0 {
		s.ledger.denyBarrier.Store(record)
	}
	return record
}

// rewriteRecord updates a holder's record, if any, after a change of its revoked
// state. A holder that may still reclaim can continue, but not after another
// restart. State.mu is held.
func (s *State) rewriteRecord(h *holder) {
	r, ok := s.ledger.records[h.key]
	switch {
	case !ok, h.ended: // the record is the next incarnation's
	case r.current:
		s.writeRecord(h)
	case !r.revoked:
		r.revoked = true
		s.setRecord(h.key, r)
		h.lastRecord = s.enqueueRecord(r.appendTo(nil, h.key))
	}
}

// StopRecording stops the writing of records: clients can reclaim their present state
// from the next State, although Revoke removes it from this one. Clients must not
// send further calls, so releases need not wait for records.
func (s *State) StopRecording() {
	s.mu.Lock()
	for _, c := range s.clients {
		s.mu.pauseLocked()
		if c.confirmed && !c.ended {
			s.trimRecord(c, false)
		}
	}
	s.trimCounters(false)
	s.mu.Unlock()
	s.storeQueue()
	s.mu.Lock()
	s.ledger.retired.Store(true)
	s.ledger.queue = nil
	list := s.pendingReleases
	s.pendingReleases = nil
	s.mu.Unlock()
	s.releaseStored(list)
}

// releaseStateID removes a holding's stateid. If it is revoked, a holding remains
// that returns the revoked status; if an operation in a Turn closes it, it remains
// to find the reply.
func (s *State) releaseStateID(h *holding) {
	if h.keepAfterClose {
		h.closed.Store(true)
		h.seqOwner.closingStateID = h
		return
	}
	if h.revokedStatus == nfs4.OK {
		s.holdings.remove(h.index, h.client.part)
		s.addUsage(h.client.group, stateIDs, -h.cost)
		return
	}
	c := h.client
	rest := &holding{client: c, index: h.index, other: h.other, cost: stateIDCost(0), revokedStatus: h.revokedStatus, seqOwner: h.seqOwner}
	s.addUsage(c.group, stateIDs, rest.cost-h.cost)
	if c.revoked == nil {
		c.revoked = make(map[*holding]struct{})
	}
	c.revoked[rest] = struct{}{}
	c.countRevoked(rest, 1)
	s.holdings.put(h.index, rest)
}

// freeRevoked removes a revoked holding's stateid.
func (s *State) freeRevoked(h *holding) {
	c := h.client
	s.holdings.remove(h.index, c.part)
	s.addUsage(c.group, stateIDs, -h.cost)
	delete(c.revoked, h)
	c.countRevoked(h, -1)
	if len(c.revoked) == 0 {
		s.rewriteRecord(&c.holder)
	}
}

// countRevoked adds n to the client's count for revoked holdings like h.
func (c *client) countRevoked(h *holding, n int32) {
	if h.revokedStatus == nfs4.ErrDelegRevoked {
		c.lostDelegations.Add(n)
		return
	}
	c.lostOthers.Add(n)
}
