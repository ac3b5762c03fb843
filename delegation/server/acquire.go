package server

import (
	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A PendingAcquire is an ACQUIRE in progress. If its object changes in the
// meantime, the ACQUIRE fails.
type PendingAcquire struct {
	keeper      *Keeper
	conn        *delegation.Conn
	key         string
	acquisition *delegation.Acquisition // nil after Commit or Cancel
	object      *heldObject
	grant       delegation.Grant
}

// A heldObject is an object in the Table that a connection holds or acquires.
type heldObject struct {
	recall.Holder
	keeper      *Keeper
	acquisition *delegation.Acquisition // set before Confirm
	lease       *fsLease                // or nil
}

// Hold adds o to the Table (delegation.HeldObject).
func (o *heldObject) Hold(key []byte) bool { return o.keeper.cfg.Holders.Hold(&o.Holder, key) }

// notifyChange reports a change of the object to the Grantor (recall.Holder).
func (o *heldObject) notifyChange(by recall.Changer) {
	k := o.keeper
	p, _ := by.Conn.(*oncrpc.Peer)
	k.applyEffects(k.grantor.Change(o.acquisition, k.connOf(p), k.currentTime()))
}

// returnObject lets changes of the object continue, after the file system's lease has been
// released.
func (o *heldObject) returnObject() {
	if o.lease != nil {
		o.keeper.leases.removeUser(o)
	}
	o.Return()
}

// Prepare starts granting an object to the connection on which a call arrived.
// The caller must read the object's attributes, for the reply, after Prepare.
// If Prepare returns a Reason, there is no PendingAcquire; otherwise the caller
// must call Cancel when done.
func (k *Keeper) Prepare(p *oncrpc.Peer, key []byte) (*PendingAcquire, delegation.Reason) {
	c := k.connOf(p)
	if c == nil || k.draining.Load() {
		return nil, k.countRefusal(delegation.ReasonOver)
	}
	o := &heldObject{keeper: k}
	o.Holder = recall.Holder{Conn: p, RetryPause: k.Lease(), Recall: o.notifyChange}
	a, why, fx := k.grantor.Prepare(c, key, o, k.currentTime())
	k.applyEffects(fx)
	if why != 0 {
		return nil, why
	}
	o.acquisition = a
	return &PendingAcquire{keeper: k, conn: c, key: string(key), acquisition: a, object: o}, 0
}

func (k *Keeper) countRefusal(why delegation.Reason) delegation.Reason {
	k.grantor.Refused(why)
	return why
}

// Directory must be called if the object is a directory.
func (s *PendingAcquire) Directory() {
	o := s.object
	s.acquisition.Names, o.Yield = true, func() { o.notifyChange(recall.Changer{Conn: o.Conn}) }
}

// Commit creates the grant. The caller must call Replied when the reply has
// been posted.
func (s *PendingAcquire) Commit() (delegation.Grant, delegation.Reason) {
	if s.keeper.draining.Load() {
		return delegation.Grant{}, s.keeper.countRefusal(delegation.ReasonOver)
	}
	if why := s.keeper.beginGrant(); why != 0 {
		return delegation.Grant{}, s.keeper.countRefusal(why)
	}
	s.object.IgnoreOwner = !s.acquisition.Lien
	gt, why, fx := s.keeper.grantor.Commit(s.acquisition, s.keeper.currentTime())
	s.keeper.endGrant() // before applyEffects releases file system leases, which may take long
	if why == 0 {
		s.acquisition, s.grant = nil, gt
	}
	s.keeper.applyEffects(fx)
	return gt, why
}

// beginGrant returns the reason why no grant may be made. If it returns 0, the
// caller must call endGrant.
func (k *Keeper) beginGrant() delegation.Reason {
	if k.cfg.Recorder == nil {
		return 0
	}
	switch ok, busy := k.cfg.Recorder.BeginCounterGrant(k.Lease()); {
	case busy:
		return delegation.ReasonContended
	case !ok:
		return delegation.ReasonLimit // not ReasonLate: no client is at fault
	}
	return 0
}

func (k *Keeper) endGrant() {
	if k.cfg.Recorder != nil {
		k.cfg.Recorder.EndCounterGrant()
	}
}

// Cancel abandons the PendingAcquire, unless Commit has created a grant.
func (s *PendingAcquire) Cancel() {
	if s.acquisition != nil {
		s.keeper.grantor.Cancel(s.acquisition)
		s.object.returnObject()
		s.acquisition = nil
	}
}

// Replied must be called when the reply is in the send queue. A recall is
// queued after the reply.
func (s *PendingAcquire) Replied() { s.keeper.applyEffects(s.keeper.grantor.Replied(s.conn, s.grant)) }
