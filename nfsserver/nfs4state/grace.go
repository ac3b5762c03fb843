package nfs4state

import (
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// After a restart, clients with a record may reclaim their state until they send
// RECLAIM_COMPLETE (RFC 8881, Section 8.4.2). A client may reclaim if and only if
// its record is neither current nor onlyTrusts. Records that are not current delay
// other clients only if a conflict is possible:
//
//	call                              must wait while
//	OPEN with a deny mode             any client may reclaim
//	any OPEN, READ and WRITE with a   a client that had deny modes may reclaim
//	special stateid, REMOVE, RENAME
//	LOCK, LOCKT                       a client that had locks or delegations may reclaim
//	any other change                  a client that had delegations may reclaim
//	any OPEN, READ with a special     a client that had write delegations may
//	stateid, NFSv3 READ                reclaim
//
// Calls with the stateid of an open or a delegation proceed: nothing that can still
// be reclaimed conflicts with it. So does an OPEN with a reclaimed delegation, with
// which a client writes back its changes.

// A Grace describes the clients of earlier States that may still reclaim.
type Grace struct {
	Clients int           // 0: no grace period
	Left    time.Duration // until they lose their state
	Deny    int           // clients with deny modes, which delay all opens
	Locks   int           // clients with locks, which delay all locks
	Reads   int           // clients with delegations, which delay all changes
	Writes  int           // clients with write delegations, which delay all opens

	// Counters is how long every change must still wait, because clients may trust
	// delegations with delegation counters (counterGrants).
	Counters time.Duration
}

// Grace returns the state of the grace period.
func (s *State) Grace() Grace {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.ledger
	if !s.checkGrace() {
		return Grace{Counters: s.countersLeft()}
	}
	return Grace{Counters: s.countersLeft(), Clients: l.staleClients, Left: s.graceEnd - s.config.Now(), Deny: l.staleDeny, Locks: l.staleLocks, Reads: l.staleDelegations, Writes: l.staleWrites}
}

// graceSlack is the time by which the grace period exceeds the lease: a client
// may notice the restart when its lease expires.
const graceSlack = 5 * time.Second

// graceTime returns the length of the grace period: at least the lease that
// clients have got (RFC 8881, Section 8.4.2.1).
func (s *State) graceTime() time.Duration {
	return max(s.config.Lease, s.config.Past.lease) + graceSlack
}

// checkGrace reports whether a client may still reclaim, and ends the grace period
// when its time has passed. State.mu is held.
func (s *State) checkGrace() bool {
	if s.ledger.staleClients == 0 {
		return false
	}
	now := s.config.Now()
	if s.ledger.storedRecords.Load() == 0 { // nothing could be reclaimed so far
		s.graceEnd = now + s.graceTime()
	}
	if now >= s.graceEnd {
		s.endGrace()
	}
	return s.ledger.staleClients > 0
}

// endGrace ends the right to reclaim. Clients that have reclaimed something keep it, although they
// have not sent RECLAIM_COMPLETE; the others have lost their state. The next reclaim of an NFSv4.0
// client fails. Until RECLAIM_COMPLETE a client may believe that it has more than it has reclaimed:
// after another restart it could reclaim that despite grants to others (the second edge condition
// of RFC 8881, Section 8.4.3). State.mu is held.
func (s *State) endGrace() {
	s.denyingOpens.Add(1) // until the queue has the records about ended deny modes
	defer s.denyingOpens.Add(-1)
	deny := s.ledger.staleDeny > 0
	for key, r := range s.ledger.records {
		if r.current {
			continue
		}
		if h := s.holderOf(key); h != nil && h.hasReclaimableState() {
			if h.client != nil {
				h.partlyReclaimed = h.client.v40 == nil
			}
			delete(s.unnotified, key) // a Machine knows of the restart
			s.writeRecord(h)
			continue
		}
		s.deleteRecord(key)
		if _, waits := s.unnotified[key]; waits {
			r.current, r.revoked, r.kinds = true, true, 0
			s.setRecord(key, r)
			s.enqueueRecord(r.appendTo(nil, key))
		}
	}
	s.ledger.reclaimBarrier = s.enqueueRecord([]byte{overRecord})
	s.ledger.trustBarrier.Store(s.ledger.reclaimBarrier)
	if deny {
		s.ledger.denyBarrier.Store(s.ledger.reclaimBarrier)
	}
}

// EndGrace ends the grace period at once. It returns false if that cannot be
// stored: then clients can no longer reclaim, but nothing is granted to others.
func (s *State) EndGrace() bool {
	s.mu.Lock()
	if s.checkGrace() {
		s.endGrace()
	}
	s.mu.Unlock()
	return s.storeQueue()
}

// isNameReserved reports whether a client name belongs to a client that may still reclaim,
// and whose principal or Host differs. If that client has a machine credential, a call that
// is not sealed (Exchange.Sealed) also counts as different: it may have been modified in
// transit (RFC 8881, Section 2.4.3). State.mu is held.
func (s *State) isNameReserved(key ownerKey, p Principal, h Host, sealed bool) bool {
	r, ok := s.ledger.records[key]
	return ok && (r.principal != p || r.host != Host{} && r.host != h || r.sealed && !sealed) && s.checkGrace() && !r.current
}

// mustReclaimFirst reports whether a holder's calls that are not reclaims must wait, because
// it may still have to reclaim: until RECLAIM_COMPLETE or, in NFSv4.0 and NLM, which lack
// it, until the grace period ends. State.mu is held.
func (s *State) mustReclaimFirst(h *holder) bool {
	if c := h.client; c != nil && c.v40 == nil {
		return !c.reclaimed
	}
	if !s.checkGrace() {
		return false
	}
	_, r, ok := s.reclaimRecord(h)
	return ok && !r.current
}

// mayReclaim returns the status of a reclaim. The holder's record must have the
// given kinds, which are 0 for an open without a deny mode. State.mu is held.
func (s *State) mayReclaim(h *holder, kind stateKinds) nfs4.Status {
	if h.client != nil && h.client.reclaimed || !s.checkGrace() {
		return nfs4.ErrNoGrace
	}
	switch _, r, ok := s.reclaimRecord(h); {
	case !ok, r.current, r.onlyTrusts:
		return nfs4.ErrNoGrace
	case kind&^r.kinds != 0:
		return nfs4.ErrReclaimBad
	}
	return nfs4.OK
}

// ReclaimComplete implements RECLAIM_COMPLETE without rca_one_fs (RFC 8881,
// Section 18.51). If that cannot be stored, the client may continue to reclaim.
func (s *State) ReclaimComplete(session *Session) nfs4.Status {
	return s.retryUntilStored(nil, func(bool) nfs4.Status { return s.reclaimComplete(session.client) })
}

func (s *State) reclaimComplete(c *client) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.ended:
		return nfs4.ErrBadSession
	case c.reclaimed:
		return nfs4.ErrCompleteAlready
	}
	grace := s.checkGrace()
	r, ok := s.ledger.records[c.key]
	switch {
	case c.partlyReclaimed:
		c.partlyReclaimed = false
		s.writeRecord(&c.holder)
	case !grace || !ok || r.current:
	case !c.hasReclaimableState():
		s.recordClientGone(c.key)
	default:
		s.writeRecord(&c.holder)
	}
	if ok && s.ledger.storedRecords.Load() < max(s.ledger.reclaimBarrier, c.lastRecord) {
		return statusNotStored
	}
	c.reclaimed = true
	return nfs4.OK
}
