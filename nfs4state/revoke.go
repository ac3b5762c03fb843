package nfs4state

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// Revoke ends each Open and each Delegation for whose File removed returns true,
// with the locks through it. Their stateids are NFS4ERR_ADMIN_REVOKED until the client frees them
// (RFC 8881, Sections 8.5 and 18.38). Revoke does not wait until the host has
// released the locks: WaitHost does. removed is called with the State locked.
func (s *State) Revoke(removed func(file any) bool) {
	var gone, ended released
	defer func() {
		gone.file, gone.files, gone.later, gone.withheld = ended.file, ended.files, ended.hosts, ended.withheld
		s.give(gone)
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denying.Add(1) // until the queue tells of the end of deny modes
	defer s.denying.Add(-1)
	for _, f := range s.files {
		for _, d := range slices.Clone(f.delegations) {
			if removed(d.File) {
				s.revokeDelegation(d, nfs4.ErrAdminRevoked, &ended)
			}
		}
		for _, o := range slices.Clone(f.opens) {
			if !removed(o.File) {
				continue
			}
			if o.client.managed() { // NLM has no word for that
				o.client.partial = true
			} else {
				o.revoked = nfs4.ErrAdminRevoked
				for _, l := range o.locks {
					l.revoked = nfs4.ErrAdminRevoked
				}
			}
			s.closeOpen(o, &ended)
			s.rewrite(o.client)
			s.free(o.Key, o.client.noted)
			if o.client.had&hadDeny != 0 {
				s.ledger.denies.Store(o.client.noted)
			}
		}
	}
}

// rewrite brings the record of a client, if any, up to date after a change of
// its revoked state. A client that may still reclaim goes on to do so, but cannot
// after another restart. State.mu is held.
func (s *State) rewrite(c *client) {
	r, ok := s.ledger.records[c.key]
	switch {
	case !ok:
	case r.fresh:
		s.write(c)
	case !r.revoked:
		r.revoked = true
		s.setRecord(c.key, r)
		c.noted = s.enqueue(r.appendTo(nil, c.key))
	}
}

// Retire ends the writing of records: clients can reclaim their present state from
// the next State, although Revoke takes it away from this one. No call of a client
// may come any more, so nothing is withheld until a record is stored.
func (s *State) Retire() {
	s.mu.Lock()
	s.ledger.ended.Store(true)
	s.ledger.queue = nil
	list := s.withheld
	s.withheld = nil
	s.mu.Unlock()
	s.giveStored(list)
}

// unname ends the use of a holding's stateid. One that is revoked goes on to
// stand for that, and one that an operation in a Turn closes for the reply.
func (s *State) unname(h *holding) {
	if h.keep {
		h.closed.Store(true)
		h.seq.closing = h
		return
	}
	if h.revoked == nfs4.OK {
		s.slab.remove(h.index)
		s.use(h.client.party, stateids, -h.cost)
		return
	}
	c := h.client
	rest := &holding{client: c, index: h.index, other: h.other, cost: costOf(0), revoked: h.revoked, seq: h.seq}
	s.use(c.party, stateids, rest.cost-h.cost)
	if c.revoked == nil {
		c.revoked = make(map[*holding]struct{})
	}
	c.revoked[rest] = struct{}{}
	c.loses(rest, 1)
	s.slab.put(h.index, rest)
}

// freeRevoked forgets the stateid of a revoked holding.
func (s *State) freeRevoked(h *holding) {
	s.slab.remove(h.index)
	c := h.client
	s.use(c.party, stateids, -h.cost)
	delete(c.revoked, h)
	c.loses(h, -1)
	if len(c.revoked) == 0 {
		s.rewrite(c)
	}
}

// loses counts n more of a client's revoked holdings of h's kind.
func (c *client) loses(h *holding, n int32) {
	if h.revoked == nfs4.ErrDelegRevoked {
		c.lostDelegations.Add(n)
		return
	}
	c.lost.Add(n)
}
