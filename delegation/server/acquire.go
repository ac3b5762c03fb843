package server

import (
	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// An Asking is an ACQUIRE under way. A change of its object in the meantime
// makes the ACQUIRE fail.
type Asking struct {
	k     *Keeper
	conn  *delegation.Conn
	key   string
	a     *delegation.Acquisition // nil: over
	lease *lease                  // or nil
	grant delegation.Grant
}

// Prepare begins a grant of an object to the connection on which a call
// arrived. The caller must read the object's attributes, for the reply, after
// Prepare. If Prepare returns a reason against the grant, there is no Asking;
// otherwise Cancel must follow.
func (k *Keeper) Prepare(p *oncrpc.Peer, key []byte) (*Asking, delegation.Reason) {
	c := k.conn(p)
	switch {
	case c == nil || k.draining.Load():
		return nil, k.refuse(delegation.ReasonOver)
	case k.fenced():
		return nil, k.refuse(delegation.ReasonLimit) // not ReasonLate: it is the fault of no client
	}
	a, why, fx := k.g.Prepare(c, key, k.now())
	k.do(fx)
	if why != 0 {
		return nil, why
	}
	return &Asking{k: k, conn: c, key: string(key), a: a}, 0
}

func (k *Keeper) refuse(why delegation.Reason) delegation.Reason {
	k.g.Refused(why)
	return why
}

// Directory says that the object is a directory.
func (s *Asking) Directory() { s.a.Names = true }

// Commit makes the grant. The caller must call Replied when the reply has been
// posted.
func (s *Asking) Commit() (delegation.Grant, delegation.Reason) {
	if s.k.draining.Load() {
		return delegation.Grant{}, s.k.refuse(delegation.ReasonOver)
	}
	if why := s.k.fence.enter(); why != 0 {
		return delegation.Grant{}, s.k.refuse(why)
	}
	gt, why, fx := s.k.g.Commit(s.a, s.k.now())
	s.k.fence.leave() // before do releases leases of the file system, which may take long
	s.a, s.grant = nil, gt
	if why == 0 {
		s.lease = nil // now the grant's
	}
	s.k.do(fx)
	return gt, why
}

// Cancel ends the Asking. If there is no grant yet, none follows. After a
// grant, Cancel has no effect.
func (s *Asking) Cancel() {
	if s.a != nil {
		s.k.g.Cancel(s.a)
		s.a = nil
	}
	if s.lease != nil {
		s.k.leases.leave(s.lease)
		s.lease = nil
	}
}

// Replied says that the reply is in the send queue. A recall is queued behind
// the reply.
func (s *Asking) Replied() { s.k.do(s.k.g.Replied(s.conn, s.grant)) }
