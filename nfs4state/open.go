package nfs4state

import (
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A file counts the opens of one object by all clients, for share reservations
// (RFC 8881, Section 9.7). State.mu guards it.
type file struct {
	key   string
	opens []*Open
}

// An openKey names an Open within its client.
type openKey struct {
	owner string
	file  *file
}

// An Open is what one open-owner of a client has open of one object. It stands
// for a stateid. OPENs of the same owner and object share it.
type Open struct {
	// File is what the server needs to use the object: it is set by the
	// first OPEN, and goes back through Config.Release.
	File any

	// Key is the object, as given to State.OpenFile.
	Key string

	client *client
	key    openKey
	index  uint32
	other  [nfs4.OtherSize]byte
	seqid  atomic.Uint32
	modes  atomic.Uint32 // access | deny << 8

	pairs uint16 // the combinations of access and deny that OPENs asked for; State.mu guards it
}

// StateID returns the stateid of o with its current seqid.
func (o *Open) StateID() nfs4.StateID { return nfs4.StateID{SeqID: o.seqid.Load(), Other: o.other} }

// Access returns the access for which o is open: ShareRead, ShareWrite or both.
func (o *Open) Access() uint32 { return o.modes.Load() & nfs4.ShareBoth }

func (o *Open) deny() uint32 { return o.modes.Load() >> 8 }

func (o *Open) setModes() {
	var access, deny uint32
	for pair := range uint32(16) {
		if o.pairs&(1<<pair) != 0 {
			access |= pair & nfs4.ShareBoth
			deny |= pair >> 2
		}
	}
	o.modes.Store(access | deny<<8)
}

// pair numbers a combination of access and deny.
func pair(access, deny uint32) uint32 { return access | deny<<2 }

// bump advances the seqid, which is never 0.
func (o *Open) bump() {
	if o.seqid.Add(1) == 0 {
		o.seqid.Store(1)
	}
}

// An OpenFile is the arguments of State.OpenFile.
type OpenFile struct {
	Owner        []byte
	Key          string // of the object, the same for all its handles
	Access, Deny uint32 // ShareRead and ShareWrite
	Reclaim      bool   // CLAIM_PREVIOUS
}

// OpenFile opens an object for an owner of a session's client, or adds to what
// that owner has open (RFC 8881, Section 18.16). If the Open is new, fresh is
// true, and the caller must set File before the reply leaves: another call can
// use the stateid only after that.
func (s *State) OpenFile(session *Session, a *OpenFile, attach any) (o *Open, fresh bool, status nfs4.Status) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	switch {
	case c.ended:
		return nil, false, nfs4.ErrBadSession
	case a.Reclaim:
		return nil, false, nfs4.ErrNoGrace
	case !c.reclaimed:
		return nil, false, nfs4.ErrGrace
	}
	f := s.files[a.Key]
	if f != nil {
		o = c.opens[openKey{string(a.Owner), f}]
		if !s.reserve(f, o, a, &gone) {
			return nil, false, nfs4.ErrShareDenied
		}
		f = s.files[a.Key] // the last open may have ended meanwhile
	}
	if o == nil {
		if len(c.opens) >= maxOpens || s.opens >= maxAllOpens {
			return nil, false, nfs4.ErrDelay
		}
		if f == nil {
			f = &file{key: a.Key}
			s.files[a.Key] = f
		}
		o = &Open{File: attach, Key: a.Key, client: c, key: openKey{string(a.Owner), f}}
		s.slab.put(o, s.config.Epoch)
		c.opens[o.key] = o
		f.opens = append(f.opens, o)
		s.opens++
		fresh = true
	}
	o.pairs |= 1 << pair(a.Access, a.Deny)
	o.setModes()
	o.bump()
	return o, fresh, nfs4.OK
}

// reserve reports whether no other open of f conflicts. Silent clients in the
// way are ended.
func (s *State) reserve(f *file, own *Open, a *OpenFile, gone *released) bool {
	now := s.config.Now()
	for _, other := range append([]*Open(nil), f.opens...) {
		if other == own || other.client.ended || other.Access()&a.Deny == 0 && other.deny()&a.Access == 0 {
			continue
		}
		if other.client.silent(now) <= s.config.Lease || !s.end(other.client, nil, gone) {
			return false
		}
	}
	return true
}

// Denied reports whether an open denies others the given access to an object:
// it is for calls with a special stateid.
func (s *State) Denied(key string, access uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[key]
	if f == nil {
		return false
	}
	for _, o := range f.opens {
		if o.deny()&access != 0 {
			return true
		}
	}
	return false
}

// Close ends an Open (RFC 8881, Section 18.2).
func (s *State) Close(session *Session, id *nfs4.StateID) nfs4.Status {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	o, status := s.Open(session, id)
	if status == nfs4.OK {
		s.closeOpen(o, &gone)
	}
	return status
}

// closeOpen removes o from all tables.
func (s *State) closeOpen(o *Open, gone *released) {
	s.slab.remove(o.index)
	delete(o.client.opens, o.key)
	f := o.key.file
	for i, other := range f.opens {
		if other == o {
			f.opens = append(f.opens[:i], f.opens[i+1:]...)
			break
		}
	}
	if len(f.opens) == 0 {
		delete(s.files, f.key)
	}
	s.opens--
	*gone = append(*gone, o.File)
}

// Downgrade is OPEN_DOWNGRADE (RFC 8881, Section 18.18): access and deny must
// be the union of what some of the OPENs asked for.
func (s *State) Downgrade(session *Session, id *nfs4.StateID, access, deny uint32) (nfs4.StateID, nfs4.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, status := s.Open(session, id)
	if status != nfs4.OK {
		return nfs4.StateID{}, status
	}
	var rest uint16
	var gotAccess, gotDeny uint32
	for p := range uint32(16) {
		a, d := p&nfs4.ShareBoth, p>>2
		if o.pairs&(1<<p) != 0 && a&^access == 0 && d&^deny == 0 {
			rest |= 1 << p
			gotAccess |= a
			gotDeny |= d
		}
	}
	if gotAccess != access || gotDeny != deny {
		return nfs4.StateID{}, nfs4.ErrInval
	}
	o.pairs = rest
	o.setModes()
	o.bump()
	return o.StateID(), nfs4.OK
}
