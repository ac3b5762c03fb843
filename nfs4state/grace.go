package nfs4state

import (
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// After a restart, clients with a record may reclaim their state until they send
// RECLAIM_COMPLETE (RFC 8881, Section 8.4.2). A client may reclaim exactly if its
// record is neither fresh nor over. Records that are not fresh hold up others only
// as far as a conflict is possible:
//
//	call                              must wait while
//	OPEN with a deny mode             any client may reclaim
//	any OPEN, READ and WRITE with a   a client that had deny modes may reclaim
//	special stateid, REMOVE, RENAME
//	LOCK, LOCKT                       a client that had locks or delegations may reclaim
//	any other change                  a client that had delegations may reclaim
//	any OPEN, READ with a special     a client that had delegations for writing may
//	stateid, READ of version 3        reclaim
//
// Calls with the stateid of an open or of a delegation go on: nothing that can still
// be reclaimed conflicts with it. So does an OPEN by a delegation that has been
// reclaimed, and a client writes back what it has changed.

// A Grace describes the clients of earlier States that may still reclaim.
type Grace struct {
	Clients int           // 0: there is no grace
	Left    time.Duration // until these lose their state
	Deny    int           // clients with deny modes, which hold up all opens
	Locks   int           // clients with locks, which hold up all locks
	Reads   int           // clients with delegations, which hold up all changes
	Writes  int           // clients with delegations for writing, which hold up all opens
}

// Grace returns the state of grace.
func (s *State) Grace() Grace {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.ledger
	if !s.grace() {
		return Grace{}
	}
	return Grace{Clients: l.stale, Left: s.graceEnd - s.config.Now(), Deny: l.staleDeny, Locks: l.staleLocks, Reads: l.staleDelegations, Writes: l.staleWrites}
}

// graceSlack is how much longer than a lease grace is: a client may notice the
// restart at the end of its lease.
const graceSlack = 5 * time.Second

// graceTime returns the length of grace: at least the lease that clients have
// been told (RFC 8881, Section 8.4.2.1).
func (s *State) graceTime() time.Duration {
	return max(s.config.Lease, s.config.Past.lease) + graceSlack
}

// grace reports whether a client may still reclaim, and ends grace if the time is
// up. State.mu is held.
func (s *State) grace() bool {
	if s.ledger.stale == 0 {
		return false
	}
	now := s.config.Now()
	if s.ledger.stored.Load() == 0 { // nothing could be reclaimed so far
		s.graceEnd = now + s.graceTime()
	}
	if now >= s.graceEnd {
		s.endGrace()
	}
	return s.ledger.stale > 0
}

// endGrace ends the right to reclaim. Clients that have reclaimed something keep
// it, although they have not sent RECLAIM_COMPLETE; the others have no state any
// more. A client of version 4.0 learns the end from its next reclaim. Until RECLAIM_COMPLETE a client may believe that it has more than it has
// reclaimed: after another restart it could reclaim that over the grants to others
// (the second edge condition of RFC 8881, Section 8.4.3). State.mu is held.
func (s *State) endGrace() {
	s.denying.Add(1) // until the queue tells of the end of deny modes
	defer s.denying.Add(-1)
	deny := s.ledger.staleDeny > 0
	for key, r := range s.ledger.records {
		if r.fresh {
			continue
		}
		if o := s.owners[key]; o != nil && o.confirmed != nil && o.confirmed.holds() {
			o.confirmed.partial = o.confirmed.seq == nil && !o.confirmed.managed()
			s.write(o.confirmed)
			continue
		}
		s.deleteRecord(key)
		if _, waits := s.untold[key]; waits {
			r.fresh, r.revoked, r.had = true, true, 0
			s.setRecord(key, r)
			s.enqueue(r.appendTo(nil, key))
		}
	}
	s.ledger.barrier = s.enqueue([]byte{overRecord})
	s.ledger.trusts.Store(s.ledger.barrier)
	if deny {
		s.ledger.denies.Store(s.ledger.barrier)
	}
}

// EndGrace ends grace at once. It returns false if that cannot be stored: then
// clients have no right to reclaim any more, but nothing is granted instead.
func (s *State) EndGrace() bool {
	s.mu.Lock()
	if s.grace() {
		s.endGrace()
	}
	s.mu.Unlock()
	return s.store()
}

// reserved reports whether the name of a client belongs to one that may still
// reclaim, and has another principal or Host. With a machine credential, a call that is not
// sealed (Exchange.Sealed) is that of another one, too: somebody between the ends may
// have changed it (RFC 8881, Section 2.4.3). State.mu is held.
func (s *State) reserved(key ownerKey, p Principal, h Host, sealed bool) bool {
	r, ok := s.ledger.records[key]
	return ok && (r.principal != p || r.host != Host{} && r.host != h || r.sealed && !sealed) && s.grace() && !r.fresh
}

// reclaims reports whether calls of a client that are no reclaims must wait, because
// it may still have to reclaim: until RECLAIM_COMPLETE, or in version 4.0 and NLM, which
// have none, until the end of grace. State.mu is held.
func (s *State) reclaims(c *client) bool {
	if c.seq == nil && !c.managed() {
		return !c.reclaimed
	}
	r, ok := s.ledger.records[c.key]
	return s.grace() && ok && !r.fresh
}

// mayReclaim returns the status of a reclaim that needs a kind of state, or 0
// for an open without a deny mode. State.mu is held.
func (s *State) mayReclaim(c *client, kind kinds) nfs4.Status {
	if c.reclaimed || !s.grace() {
		return nfs4.ErrNoGrace
	}
	switch r, ok := s.ledger.records[c.key]; {
	case !ok, r.fresh, r.over:
		return nfs4.ErrNoGrace
	case kind&^r.had != 0:
		return nfs4.ErrReclaimBad
	}
	return nfs4.OK
}

// ReclaimComplete is RECLAIM_COMPLETE without rca_one_fs (RFC 8881, Section
// 18.51), for the client of a session. If that cannot be stored, the client may
// go on to reclaim.
func (s *State) ReclaimComplete(session *Session) nfs4.Status {
	return s.settling(func() nfs4.Status { return s.reclaimComplete(session.client) })
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
	grace := s.grace()
	r, ok := s.ledger.records[c.key]
	switch {
	case c.partial:
		c.partial = false
		s.write(c)
	case !grace || !ok || r.fresh:
	case !c.holds():
		s.strike(c.key)
	default:
		s.write(c)
	}
	if ok && s.ledger.stored.Load() < max(s.ledger.barrier, c.noted) {
		return unsettled
	}
	c.reclaimed = true
	return nfs4.OK
}
