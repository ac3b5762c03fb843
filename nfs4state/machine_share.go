package nfs4state

import "github.com/nfsrdma/nfsrdma/nfs/nfs4"

// A Share is the arguments of State.Share.
type Share struct {
	Owner        []byte // oh
	Key          string // of the object
	Access, Deny uint32 // ShareRead and ShareWrite
	Reclaim      bool
	File         any // as in Lock, like Handle
	Handle       []byte
}

// Share opens an object for an owner of a session's Machine with a deny mode, in
// place of the owner's earlier modes (SHARE of NLM).
func (s *State) Share(session *Session, a *Share) nfs4.Status {
	var gone released
	defer func() { s.give(gone) }()
	return s.settling(func() nfs4.Status {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.denying.Add(1) // see BeginSpecial; also while the owner's earlier modes are out of force
		defer s.denying.Add(-1)
		return s.tryShare(session.client, a, &gone)
	})
}

func (s *State) tryShare(c *client, a *Share, gone *released) nfs4.Status {
	had := kinds(0)
	if a.Deny != 0 {
		had = hadDeny
	}
	switch {
	case a.Reclaim:
		if status := s.mayReclaim(c, had); status != nfs4.OK {
			return status
		}
	case s.reclaims(c), s.grace() && (a.Deny != 0 || s.ledger.staleDeny > 0):
		return nfs4.ErrGrace
	}
	o, status := s.openFor(c, shareOpener+string(a.Owner), a.Key, a.Handle, a.File)
	if status != nfs4.OK {
		return status
	}
	before := o.asked
	s.setAsked(o, 0)
	switch {
	case !s.reserve(a.Key, c, modes(a.Access, a.Deny), gone):
		status = nfs4.ErrShareDenied
	case a.Deny != 0 && s.underWay(a.Key, a.Deny):
		status = nfs4.ErrDelay
	case !s.note(c, had, a.Key):
		status = unsettled
	default:
		before = 1 << modes(a.Access, a.Deny)
	}
	if s.setAsked(o, before); before == 0 {
		s.closeOpen(o, gone)
	}
	return status
}

// Unshare takes back what Share has opened, if anything.
func (s *State) Unshare(session *Session, a *Share) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	if f := s.files[a.Key]; f != nil {
		if o := c.opens[openKey{owner: shareOpener + string(a.Owner), file: f}]; o != nil {
			s.closeOpen(o, &gone)
		}
	}
}

// shares returns the number of the SHAREs of a Machine.
func (c *client) shares() (n int) {
	for _, o := range c.opens {
		if o.asked != 0 {
			n++
		}
	}
	return n
}
