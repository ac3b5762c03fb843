package nfs4state

import "github.com/nfsrdma/nfsrdma/nfs/nfs4"

// A Share holds the arguments of State.Share.
type Share struct {
	Owner        []byte // oh
	Key          string // the object's key
	Access, Deny uint32 // ShareRead and ShareWrite
	Reclaim      bool
	File         any // like Handle, as in Lock
	Handle       []byte
}

// Share opens an object for an owner of a session's Machine with a deny mode. It
// replaces the owner's earlier modes (NLM SHARE).
func (s *State) Share(session *Session, a *Share) nfs4.Status {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	return s.retryUntilStored(nil, func(bool) nfs4.Status {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.denyingOpens.Add(1) // see BeginSpecial; also while the owner's earlier modes are not in force
		defer s.denyingOpens.Add(-1)
		return s.tryShare(session.client, a, &deferred)
	})
}

func (s *State) tryShare(c *client, a *Share, deferred *deferredWork) nfs4.Status {
	had := stateKinds(0)
	if a.Deny != 0 {
		had = hadDeny
	}
	switch {
	case a.Reclaim:
		if status := s.mayReclaim(c, had); status != nfs4.OK {
			return status
		}
	case s.mustReclaimFirst(c), s.checkGrace() && (a.Deny != 0 || s.ledger.staleDeny > 0):
		return nfs4.ErrGrace
	}
	o, status := s.openForMachine(c, shareOpener+string(a.Owner), a.Key, a.Handle, a.File)
	if status != nfs4.OK {
		return status
	}
	before := o.requestedModes
	s.setRequestedModes(o, 0)
	switch status = s.resolveShareConflict(o.key.file, c, shareModes(a.Access, a.Deny), deferred); {
	case status != nfs4.OK:
	case a.Deny != 0 && s.hasSpecialUse(a.Key, a.Deny):
		status = nfs4.ErrDelay
	default:
		if status = s.recordState(c, had, a.Key, &deferred.hold); status == nfs4.OK {
			before = 1 << shareModes(a.Access, a.Deny)
		}
	}
	if s.setRequestedModes(o, before); before == 0 {
		s.closeOpen(o, deferred)
	}
	return status
}

// Unshare closes what Share has opened, if anything.
func (s *State) Unshare(session *Session, a *Share) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	if f := s.fileOf(a.Key); f != nil {
		if o := c.opens[openKey{owner: shareOpener + string(a.Owner), file: f}]; o != nil {
			s.closeOpen(o, &deferred)
		}
	}
}
