package server

import (
	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A PendingAcquire is an ACQUIRE in progress. If its object changes in the
// meantime, the ACQUIRE fails.
type PendingAcquire struct {
	keeper      *Keeper
	conn        *delegation.Conn
	key         string
	acquisition *delegation.Acquisition // nil after Commit or Cancel
	lease       *fsLease                // or nil
	grant       delegation.Grant
}

// Prepare starts granting an object to the connection on which a call arrived.
// The caller must read the object's attributes, for the reply, after Prepare.
// If Prepare returns a Reason, there is no PendingAcquire; otherwise the caller
// must call Cancel when done.
func (k *Keeper) Prepare(p *oncrpc.Peer, key []byte) (*PendingAcquire, delegation.Reason) {
	c := k.connOf(p)
	switch {
	case c == nil || k.draining.Load():
		return nil, k.countRefusal(delegation.ReasonOver)
	case k.IsFenced():
		return nil, k.countRefusal(delegation.ReasonLimit) // not ReasonLate: no client is at fault
	}
	a, why, fx := k.grantor.Prepare(c, key, k.currentTime())
	k.applyEffects(fx)
	if why != 0 {
		return nil, why
	}
	return &PendingAcquire{keeper: k, conn: c, key: string(key), acquisition: a}, 0
}

func (k *Keeper) countRefusal(why delegation.Reason) delegation.Reason {
	k.grantor.Refused(why)
	return why
}

// Directory must be called if the object is a directory.
func (s *PendingAcquire) Directory() { s.acquisition.Names = true }

// Commit creates the grant. The caller must call Replied when the reply has
// been posted.
func (s *PendingAcquire) Commit() (delegation.Grant, delegation.Reason) {
	if s.keeper.draining.Load() {
		return delegation.Grant{}, s.keeper.countRefusal(delegation.ReasonOver)
	}
	if why := s.keeper.fence.beginGrant(); why != 0 {
		return delegation.Grant{}, s.keeper.countRefusal(why)
	}
	gt, why, fx := s.keeper.grantor.Commit(s.acquisition, s.keeper.currentTime())
	s.keeper.fence.endGrant() // before applyEffects releases file system leases, which may take long
	s.acquisition, s.grant = nil, gt
	if why == 0 {
		s.lease = nil // owned by the grant from now on
	}
	s.keeper.applyEffects(fx)
	return gt, why
}

// Cancel abandons the PendingAcquire, unless Commit has created a grant.
func (s *PendingAcquire) Cancel() {
	if s.acquisition != nil {
		s.keeper.grantor.Cancel(s.acquisition)
		s.acquisition = nil
	}
	if s.lease != nil {
		s.keeper.leases.removeUser(s.lease)
		s.lease = nil
	}
}

// Replied must be called when the reply is in the send queue. A recall is
// queued after the reply.
func (s *PendingAcquire) Replied() { s.keeper.applyEffects(s.keeper.grantor.Replied(s.conn, s.grant)) }
