package nfs4state

import (
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Delegation lets a client open a file for reading, and read it from its cache,
// without a call (RFC 8881, Section 10.4). Its stateid reads like that of an open. A
// Delegation for writing lets the client also write and lock the file in its cache.
// Then no other client has the file open or delegated.
type Delegation struct {
	// Open is what the stateid reads by. It is none of the client's opens.
	Open

	// Referring is the call that the Delegation was granted to.
	Referring nfs4.ReferringCalls

	// State.mu guards these.
	at       int // in the file's delegations
	recalled bool
	due      time.Duration // of a recall: when the Delegation is revoked
}

// Writes reports whether d is for writing.
func (d *Delegation) Writes() bool { return d.Access()&nfs4.ShareWrite != 0 }

// ClientID returns the ID of the client.
func (d *Delegation) ClientID() uint64 { return d.client.id }

// A Delegate is the arguments of State.Delegate.
type Delegate struct {
	Key       string // of the object
	Handle    string // a copy of its filehandle, for the recall
	Referring nfs4.ReferringCalls
	Reclaim   bool // CLAIM_PREVIOUS
	Write     bool // not only for reading
}

// kinds returns the kind of state that a delegation needs a record of.
func (a *Delegate) kinds() kinds {
	if a.Write {
		return hadWrites
	}
	return hadReads
}

// MayDelegate returns OK if a session's client may get a delegation of an object
// that it has just opened: it can be called back, trusts nothing of an earlier
// State, and nobody has the object open for writing. For a delegation for writing, no
// other client may have the object open. State.Delegate decides. NFS4ERR_DELAY says
// that there is no room, and NFS4ERR_EXIST that the client has a delegation of the
// object already.
func (s *State) MayDelegate(session *Session, key string, write bool) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mayDelegate(session.client, &Delegate{Key: key, Write: write})
}

// Delegated returns which delegation a session's client has of an object.
func (s *State) Delegated(session *Session, key string) nfs4.Delegation {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch d := session.client.delegations[s.files[key]]; {
	case d == nil:
		return nfs4.DelegateNone
	case d.Writes():
		return nfs4.DelegateWrite
	}
	return nfs4.DelegateRead
}

// Relieve chooses a client that should return some of its delegations, so that
// others can have some: the one that has the most, of the party of a session's
// client, or of all if session is nil. It returns 0 if that client was chosen less
// than a lease ago, and otherwise how many delegations the client may keep, and of
// which types it has any (RFC 8881, Section 20.6).
func (s *State) Relieve(session *Session) (id uint64, keep, types uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var most *client
	for _, c := range s.clients {
		if session != nil && c.party != session.client.party {
			continue
		}
		if len(c.delegations) > 0 && (most == nil || len(c.delegations) > len(most.delegations)) {
			most = c
		}
	}
	now := s.config.Now()
	if most == nil || now < most.relieved {
		return 0, 0, 0
	}
	most.relieved = now + s.config.Lease
	if most.writes > 0 {
		types |= nfs4.RecallAnyWrite
	}
	if most.writes < len(most.delegations) {
		types |= nfs4.RecallAnyRead
	}
	return most.id, uint32(len(most.delegations) / 2), types
}

func (s *State) mayDelegate(c *client, a *Delegate) nfs4.Status {
	f := s.files[a.Key]
	switch {
	case c.ended:
		return nfs4.ErrBadSession
	case a.Reclaim:
		if status := s.mayReclaim(c, a.kinds()); status != nfs4.OK {
			return status
		}
	case s.reclaims(c), s.grace():
		return nfs4.ErrGrace
	case !c.callable():
		return nfs4.ErrCBPathDown
	}
	switch {
	case f == nil, !a.Write && f.held[0] == 0,
		a.Write && f.held[1] == 0 && !a.Reclaim: // a delegation is reclaimed by any open (RFC 8881, Section 10.2.1)
		return nfs4.ErrStale // closed meanwhile
	case c.delegations[f] != nil:
		return nfs4.ErrExist
	case f.held[denyShift] > 0, f.machines > 0, !a.Write && f.held[1] > 0, a.Write && !f.alone(c):
		return nfs4.ErrShareDenied
	case !s.mayUse(c.party, stateids, 1), !s.mayUse(c.party, delegated, 1):
		return nfs4.ErrDelay
	}
	return nfs4.OK
}

// alone reports whether no other client than c has anything of f. A file with many
// opens is not looked at: f counts as shared.
func (f *file) alone(c *client) bool {
	if len(f.delegations) > 0 || len(f.opens) > maxOwnOpens || f.held[denyShift+1] > 0 {
		return false
	}
	for _, o := range f.opens {
		if o.client != c {
			return false
		}
	}
	for _, l := range f.owners {
		if l.client != c {
			return false
		}
	}
	return true
}

// maxOwnOpens is how many opens a client may have of a file of which it gets a
// delegation for writing.
const maxOwnOpens = 64

// writtenByOther reports whether another client than c has a delegation for writing
// of an object.
func (s *State) writtenByOther(key string, c *client) bool {
	f := s.files[key]
	return f != nil && len(f.delegations) > 0 && f.delegations[0].Writes() && f.delegations[0].client != c
}

// claims reports whether an OPEN needs nothing but a delegation that its client has.
func (s *State) claims(c *client, a *OpenFile) bool {
	if !a.Claimed || a.Deny != 0 {
		return false
	}
	if a.Access == nfs4.ShareRead {
		return true
	}
	f := s.files[a.Key]
	if f == nil { // the object is not yet known, but some file is delegated so
		return a.Key == "" && c.writes > 0
	}
	d := c.delegations[f]
	return d != nil && d.Writes()
}

// Delegate grants a delegation of an object to a session's client, which has the
// object open. attach becomes its File, if the status is OK, and
// goes to Config.Release otherwise. The caller has made sure that no change of the
// object runs, and that a later one calls Recall.
func (s *State) Delegate(session *Session, a *Delegate, attach any) (d *Delegation, status nfs4.Status) {
	c := session.client
	status = s.settling(func() nfs4.Status {
		s.mu.Lock()
		defer s.mu.Unlock()
		if status := s.mayDelegate(c, a); status != nfs4.OK {
			return status
		}
		if !s.note(c, a.kinds(), a.Key) {
			return unsettled
		}
		d = s.newDelegation(c, a, attach)
		return nfs4.OK
	})
	if status != nfs4.OK {
		s.config.Release(attach)
		return nil, status
	}
	return d, nfs4.OK
}

func (s *State) newDelegation(c *client, a *Delegate, attach any) *Delegation {
	f := s.files[a.Key]
	d := &Delegation{Open: Open{File: attach, Key: a.Key, key: openKey{file: f, handle: a.Handle}}, at: len(f.delegations)}
	d.Referring = a.Referring
	d.modes.Store(nfs4.ShareRead)
	if a.Write {
		d.modes.Store(nfs4.ShareBoth)
		c.writes++
		s.delegations.writes++
	}
	d.client, d.open, d.delegation = c, &d.Open, d
	s.name(&d.holding, "")
	s.use(c.party, delegated, 1)
	d.bump()
	if c.delegations == nil {
		c.delegations = make(map[*file]*Delegation)
	}
	c.delegations[f] = d
	f.delegations = append(f.delegations, d)
	s.slab.put(d.index, &d.holding)
	s.delegations.granted++
	return d
}

// Handle returns the filehandle by which the object was opened.
func (d *Delegation) Handle() nfs4.FH { return nfs4.FH(d.key.handle) }

// endDelegation removes d from all tables. Its File is released when the record
// of that number is on stable storage: others may change the object then.
func (s *State) endDelegation(d *Delegation, record uint64, gone *released) {
	f, c := d.key.file, d.client
	s.unname(&d.holding)
	s.use(c.party, delegated, -1)
	delete(c.delegations, f)
	if d.Writes() {
		c.writes--
		s.delegations.writes--
	}
	last := len(f.delegations) - 1
	f.delegations[d.at] = f.delegations[last]
	f.delegations[d.at].at = d.at
	f.delegations[last] = nil
	f.delegations = f.delegations[:last]
	s.dropFile(f)
	gone.withhold(d.File, record)
}

// dropFile forgets a file that nobody has open, and nobody has a delegation of.
func (s *State) dropFile(f *file) {
	if len(f.opens) == 0 && len(f.delegations) == 0 {
		delete(s.files, f.key)
	}
}

// DelegationOf returns the delegation of a stateid that a session's client has.
func (s *State) DelegationOf(session *Session, id *nfs4.StateID) (*Delegation, nfs4.Status) {
	h, status := s.holding(session, id)
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

// ReturnDelegation is DELEGRETURN (RFC 8881, Section 18.6).
func (s *State) ReturnDelegation(session *Session, id *nfs4.StateID) nfs4.Status {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	d, status := s.DelegationOf(session, id)
	if status == nfs4.OK {
		s.endDelegation(d, 0, &gone)
	}
	return status
}

// Recall begins the recall of a delegation, and returns how long the client has to
// return it. A client whose lease has expired ends at once; the time is then 0, as
// it is for a delegation that has ended.
func (s *State) Recall(d *Delegation) time.Duration {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.config.Now()
	c := d.client
	switch {
	case s.slab.get(d.index) != &d.holding:
		return 0
	case c.silent(now) > s.config.Lease && s.end(c, nil, now-s.config.Lease, &gone):
		return 0
	case !d.recalled:
		d.recalled, d.due = true, now+s.config.Lease
		s.delegations.recalled++
	}
	return max(d.due-now, 1)
}

// OpenToWrite reports whether the client of a delegation, which it may have returned, has
// the object open for writing.
func (s *State) OpenToWrite(d *Delegation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[d.Key]
	return f != nil && slices.ContainsFunc(f.opens, func(o *Open) bool { return o.client == d.client && o.Access()&nfs4.ShareWrite != 0 })
}

// Outstanding reports whether a client has yet to return a delegation.
func (s *State) Outstanding(d *Delegation) bool { return s.slab.get(d.index) == &d.holding }

// RevokeDelegation ends a delegation that its client has not returned in time (RFC
// 8881, Section 10.2.1). The client finds NFS4ERR_DELEG_REVOKED until it frees the
// stateid.
func (s *State) RevokeDelegation(d *Delegation) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Outstanding(d) {
		s.revokeDelegation(d, nfs4.ErrDelegRevoked, &gone)
	}
}

func (s *State) revokeDelegation(d *Delegation, why nfs4.Status, gone *released) {
	if d.client.seq != nil && why == nfs4.ErrDelegRevoked {
		why = nfs4.ErrAdminRevoked // version 4.0 has no other
	}
	d.revoked = why
	s.delegations.revoked++
	s.endDelegation(d, 0, gone)
	s.rewrite(d.client)
	gone.withheld[len(gone.withheld)-1].record = d.client.noted
}

// Trusted reports whether clients may still trust delegations that earlier States
// have granted, so that nobody may change anything: such a client may reclaim
// yet, or the end of its right to is not on stable storage. If the records of clients
// are lost, any client may trust one until its lease has ended.
func (s *State) Trusted() bool {
	l := &s.ledger
	if !l.trusting.Load() {
		return false
	}
	if s.trust(&l.staleDelegations) {
		return true
	}
	l.trusting.Store(false)
	return false
}

// Writing is Trusted for delegations for writing alone, by which clients may have
// changed files without the server's knowledge: nobody else may read these.
func (s *State) Writing() bool { return s.ledger.trusting.Load() && s.trust(&s.ledger.staleWrites) }

// trust reports whether any of some clients may reclaim, or the end of its right to
// is not on stable storage.
func (s *State) trust(stale *int) bool {
	s.mu.Lock()
	trusted := s.grace() && *stale > 0 || s.config.Now() < s.ledger.unknownEnd
	s.mu.Unlock()
	if !trusted && s.ledger.stored.Load() < s.ledger.trusts.Load() {
		s.beginWrite()
		return true
	}
	return trusted
}

// withheld is the File of a delegation that has ended: the object may be changed
// when a record is on stable storage.
type withheld struct {
	file   any
	record uint64
}

func (r *released) withhold(file any, record uint64) {
	r.withheld = append(r.withheld, withheld{file, record})
}

// giveWithheld releases the Files whose records are on stable storage. For the
// others a goroutine waits; if the journal fails, Sweep tries again.
func (s *State) giveWithheld(list []withheld) {
	list = s.giveStored(list)
	if len(list) == 0 {
		return
	}
	s.releasing.Go(func() {
		s.store()
		list := s.giveStored(list)
		s.mu.Lock()
		ended := s.ledger.ended.Load()
		if !ended {
			s.withheld = append(s.withheld, list...)
		}
		s.mu.Unlock()
		if ended {
			s.giveStored(list)
		}
	})
}

// giveStored is giveWithheld for the Files that need not wait, and returns the
// others.
func (s *State) giveStored(list []withheld) []withheld {
	return slices.DeleteFunc(list, func(w withheld) bool {
		stored := w.record <= s.ledger.stored.Load() || s.ledger.ended.Load()
		if stored {
			s.config.Release(w.file)
		}
		return stored
	})
}
