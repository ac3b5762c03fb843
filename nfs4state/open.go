package nfs4state

import (
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A file counts the opens of one object by all clients, for share reservations
// (RFC 8881, Section 9.7), and has its locks. State.mu guards it.
type file struct {
	key         string
	opens       []*Open
	delegations []*Delegation
	held        [modeBits]int // Opens that have each bit of their modes
	machines    int           // Opens of Machines

	locks   locks.Object
	owners  map[lockOwnerKey]*lockOwner
	waiting []*Waiting // the first to come first
}

// The modes of an Open, or those that one OPEN asks for: access, and above it
// deny.
const (
	modeBits  = 4
	denyShift = 2
)

func modes(access, deny uint32) uint32 { return access | deny<<denyShift }

// count adds n to the counts of some modes.
func (f *file) count(modes uint32, n int) {
	for bit := range f.held {
		if modes&(1<<bit) != 0 {
			f.held[bit] += n
		}
	}
}

// conflicts reports whether any open conflicts with the modes of another.
func (f *file) conflicts(modes uint32) bool {
	var all uint32
	for bit, n := range f.held {
		if n > 0 {
			all |= 1 << bit
		}
	}
	return conflict(all, modes)
}

// conflict reports whether either denies an access of the other.
func conflict(a, b uint32) bool {
	return a>>denyShift&b&nfs4.ShareBoth != 0 || b>>denyShift&a&nfs4.ShareBoth != 0
}

// An openKey names an Open within its client.
type openKey struct {
	owner  string
	file   *file
	handle string
}

// An Open is an object that one open-owner of a client has open by one
// filehandle. OPENs of the same owner by the same filehandle share the Open and
// its stateid.
type Open struct {
	// File is the server's means to use the object, as given to State.OpenFile.
	// Config.Release gets the File back.
	File any

	// Key is the object, as given to State.OpenFile.
	Key string

	holding
	key   openKey
	at    int // in the file's opens
	modes atomic.Uint32

	// State.mu guards these.
	asked  uint16 // a bit for the modes of each OPEN
	trials []*Trial

	notifies bool     // see MayNotify
	names    []string // see KeyOf
	locks    map[*lockOwner]*lockSet
}

// Access returns the access for which o is open: ShareRead, ShareWrite or both.
func (o *Open) Access() uint32 { return o.modes.Load() & nfs4.ShareBoth }

// setAsked sets the modes of the OPENs that o stands for, or of none.
func (s *State) setAsked(o *Open, asked uint16) {
	var now uint32
	for m := range uint32(1 << modeBits) {
		if asked&(1<<m) != 0 {
			now |= m
		}
	}
	before := o.modes.Swap(now)
	o.asked = asked
	o.key.file.count(before, -1)
	o.key.file.count(now, 1)
	switch {
	case before>>denyShift == 0 && now>>denyShift != 0:
		s.denying.Add(1)
	case before>>denyShift != 0 && now>>denyShift == 0:
		s.denying.Add(-1)
	}
}

// An OpenFile is the arguments of State.OpenFile.
type OpenFile struct {
	Owner        []byte
	Key          string // of the object, the same for all its filehandles
	Handle       string // may be empty if the object has a single filehandle
	Access, Deny uint32 // ShareRead and ShareWrite
	Reclaim      bool   // CLAIM_PREVIOUS
	Claimed      bool   // by a delegation that the client has

	// Delegated is the delegation that the client had, for Reclaim.
	Delegated nfs4.Delegation
	Trial     *Trial // of an OPEN that may still fail, or nil
}

// MayOpen returns the status of an OPEN that fails for any object, so that the
// OPEN creates nothing. Owner, Key, Handle and Trial of the arguments do not matter.
func (s *State) MayOpen(session *Session, a *OpenFile) nfs4.Status {
	return s.settling(func() nfs4.Status {
		s.mu.Lock()
		defer s.mu.Unlock()
		status := s.mayOpen(session.client, a)
		if status == nfs4.OK && !s.note(session.client, a.kinds(), a.Key) {
			return unsettled
		}
		return status
	})
}

// kinds returns the kinds of state that an OPEN needs a record of.
func (a *OpenFile) kinds() (had kinds) {
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
		return s.mayReclaim(c, a.kinds())
	case s.claims(c, a): // nothing can be reclaimed that conflicts with the delegation
	case s.reclaims(c), s.grace() && (a.Deny != 0 || s.ledger.staleDeny+s.ledger.staleWrites > 0):
		return nfs4.ErrGrace
	}
	return nfs4.OK
}

// OpenFile opens an object for an owner of a session's client, or adds to the
// owner's Open of that object by that filehandle (RFC 8881, Sections 9.9 and
// 18.16). The stateid is that of this OPEN, because another OPEN may follow at
// once: the seqid is 1 if the Open is new. Then attach is its File. Otherwise
// attach goes to Config.Merge if the OPEN succeeds, and to Config.Release.
func (s *State) OpenFile(session *Session, a *OpenFile, attach any) (o *Open, id nfs4.StateID, status nfs4.Status) {
	var gone released
	defer func() { s.give(gone) }()
	used := false
	status = s.settling(func() (status nfs4.Status) {
		o, id, used, status = s.tryOpen(session.client, a, attach, &gone)
		return status
	})
	if !used {
		gone.add(attach)
	}
	return o, id, status
}

// tryOpen is OpenFile, and tells whether attach is used as a File.
func (s *State) tryOpen(c *client, a *OpenFile, attach any, gone *released) (o *Open, id nfs4.StateID, used bool, status nfs4.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Deny != 0 {
		s.denying.Add(1) // see BeginSpecial
		defer s.denying.Add(-1)
	}
	o, fresh, status := s.openFile(c, a, gone)
	switch {
	case status != nfs4.OK:
		return nil, nfs4.StateID{}, false, status
	case !fresh:
		s.config.Merge(o.File, attach)
	}
	if fresh {
		o.File = attach
		s.slab.put(o.index, &o.holding)
	}
	mode := modes(a.Access, a.Deny)
	if a.Trial != nil {
		o.try(a.Trial, mode)
	} else {
		o.asks(mode)
	}
	s.setAsked(o, o.asked|1<<mode)
	o.bump()
	return o, o.StateID(), fresh, nfs4.OK
}

// openFile returns the Open that an OPEN is for, and makes it if it is fresh.
func (s *State) openFile(c *client, a *OpenFile, gone *released) (o *Open, fresh bool, status nfs4.Status) {
	if status := s.mayOpen(c, a); status != nfs4.OK {
		return nil, false, status
	}
	switch {
	case a.Access == 0, (a.Access|a.Deny)&^nfs4.ShareBoth != 0:
		return nil, false, nfs4.ErrInval
	case s.reserve(a.Key, c, modes(a.Access, a.Deny), gone):
	case a.Reclaim:
		return nil, false, nfs4.ErrReclaimConflict
	default:
		return nil, false, nfs4.ErrShareDenied
	}
	switch {
	case s.writtenByOther(a.Key, c) && a.Reclaim:
		return nil, false, nfs4.ErrReclaimConflict
	case a.Deny != 0 && s.underWay(a.Key, a.Deny), s.writtenByOther(a.Key, c): // granted since the caller has looked
		return nil, false, nfs4.ErrDelay
	}
	f := s.files[a.Key]
	if f != nil {
		if o = c.opens[openKey{string(a.Owner), f, a.Handle}]; o != nil {
			if !s.note(c, a.kinds(), a.Key) {
				return nil, false, unsettled
			}
			return o, false, nfs4.OK
		}
	}
	room := s.room(c.party, stateids, costOf(len(a.Owner)), gone)
	switch {
	case c.ended:
		return nil, false, nfs4.ErrBadSession // it was silent, and has made room
	case len(c.opens) >= maxOpens, !room:
		return nil, false, nfs4.ErrDelay
	case !s.note(c, a.kinds(), a.Key):
		return nil, false, unsettled
	}
	o = s.newOpen(c, string(a.Owner), a.Key, a.Handle)
	if c.seq != nil {
		o.seq = c.seq.owners[seqKey{o.key.owner, false}]
		o.seq.uses++
		o.seq.opened = o
	}
	return o, true, nfs4.OK
}

// newOpen makes an Open without modes.
func (s *State) newOpen(c *client, owner, key, handle string) *Open {
	f := s.files[key]
	if f == nil {
		f = &file{key: key}
		s.files[key] = f
	}
	o := &Open{Key: key, key: openKey{owner, f, handle}, at: len(f.opens)}
	o.client, o.open = c, o
	s.name(&o.holding, owner)
	c.opens[o.key] = o
	f.opens = append(f.opens, o)
	return o
}

// reserve reports whether an OPEN with some modes conflicts with no open of the
// object, those of the same owner included (RFC 8881, Section 9.7). If all opens
// in the way are of silent clients, reserve ends these. The client asks does not
// end; asks may be nil.
func (s *State) reserve(key string, asks *client, modes uint32, gone *released) bool {
	f := s.files[key]
	if f == nil || !f.conflicts(modes) {
		return true
	}
	now := s.config.Now()
	var silent []*client
	for _, o := range f.opens {
		if !conflict(o.modes.Load(), modes) {
			continue
		}
		if o.client == asks || o.client.silent(now) <= s.config.Lease {
			return false
		}
		silent = append(silent, o.client)
	}
	for _, c := range silent {
		if !c.ended && !s.end(c, nil, now-s.config.Lease, gone) {
			return false // a call of the client has come
		}
	}
	return true
}

// Denying reports whether any open denies others anything, or may do so once it
// is reclaimed after this restart or a crash.
func (s *State) Denying() bool { return s.denying.Load() > 0 || s.ledger.owes() }

// Denied returns NFS4ERR_LOCKED if an open denies others the given access to an
// object, for calls with a special stateid. A silent client gives way. While a
// client may reclaim opens with deny modes, the status is NFS4ERR_GRACE.
func (s *State) Denied(key string, access uint32) nfs4.Status {
	if !s.Denying() {
		return nfs4.OK
	}
	var gone released
	defer func() { s.give(gone) }()
	return s.settling(func() nfs4.Status {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.grace() && s.ledger.staleDeny > 0:
			return nfs4.ErrGrace
		case !s.reserve(key, nil, modes(access, 0), &gone):
			return nfs4.ErrLocked
		case !s.settled(key):
			return unsettled
		}
		return nfs4.OK
	})
}

// Close ends an Open and the locks through it (RFC 8881, Section 18.2).
func (s *State) Close(session *Session, id *nfs4.StateID) nfs4.Status {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	o, status := s.own(session, id)
	if status == nfs4.OK {
		o.keep = o.seq != nil
		s.closeOpen(o, &gone)
	}
	return status
}

// closeOpen removes o and its locks from all tables.
func (s *State) closeOpen(o *Open, gone *released) {
	for _, l := range o.locks {
		s.endLocks(l, gone)
	}
	s.leave(o, gone)
	s.unname(&o.holding)
	o.dropNames()
	delete(o.client.opens, o.key)
	s.setAsked(o, 0)
	f := o.key.file
	last := len(f.opens) - 1
	f.opens[o.at] = f.opens[last]
	f.opens[o.at].at = o.at
	f.opens[last] = nil
	f.opens = f.opens[:last]
	if o.client.managed() {
		f.machines--
	}
	s.dropFile(f)
	gone.add(o.File)
	if q := o.seq; q != nil {
		q.uses--
		if q.opened == o {
			q.opened = nil
		}
		s.rest(q, gone)
	}
}

// Downgrade is OPEN_DOWNGRADE (RFC 8881, Section 18.18): access and deny must
// be the union of the modes of some of the OPENs.
func (s *State) Downgrade(session *Session, id *nfs4.StateID, access, deny uint32) (nfs4.StateID, nfs4.Status) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	o, status := s.own(session, id)
	if status != nfs4.OK {
		return nfs4.StateID{}, status
	}
	// The most OPENs that can be meant are all within the new modes.
	var rest uint16
	var union uint32
	within := modes(access, deny)
	for m := range uint32(1 << modeBits) {
		if o.asked&(1<<m) != 0 && m&^within == 0 {
			rest |= 1 << m
			union |= m
		}
	}
	if access == 0 || union != within {
		return nfs4.StateID{}, nfs4.ErrInval
	}
	s.setAsked(o, rest)
	o.downgraded(rest)
	gone.add(s.config.Narrow(o.File, access))
	o.bump()
	return o.StateID(), nfs4.OK
}
