package nfs4state

import "slices"

// Revoke ends each Open for whose File removed returns true, with the locks
// through it. Its stateids are NFS4ERR_ADMIN_REVOKED until the client frees them
// (RFC 8881, Sections 8.5 and 18.38). Revoke does not wait until the host has
// released the locks: WaitHost does. removed is called with the State locked.
func (s *State) Revoke(removed func(file any) bool) {
	var gone, ended released
	defer func() {
		gone.file, gone.files, gone.later = ended.file, ended.files, ended.hosts
		s.give(gone)
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denying.Add(1) // until the queue tells of the end of deny modes
	defer s.denying.Add(-1)
	for _, f := range s.files {
		for _, o := range slices.Clone(f.opens) {
			if !removed(o.File) {
				continue
			}
			o.revoke = true
			for _, l := range o.locks {
				l.revoke = true
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
// may come any more.
func (s *State) Retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.ended, s.ledger.queue = true, nil
}

// unname ends the use of a holding's stateid. One that is revoked goes on to
// stand for that.
func (s *State) unname(h *holding) {
	if !h.revoke {
		s.slab.remove(h.index)
		s.use(h.client.party, stateids, -h.cost)
		return
	}
	c := h.client
	rest := &holding{client: c, index: h.index, other: h.other, cost: costOf(0)}
	s.use(c.party, stateids, rest.cost-h.cost)
	if c.revoked == nil {
		c.revoked = make(map[*holding]struct{})
	}
	c.revoked[rest] = struct{}{}
	c.lost.Store(true)
	s.slab.put(h.index, rest)
}

// freeRevoked forgets the stateid of a revoked holding.
func (s *State) freeRevoked(h *holding) {
	s.slab.remove(h.index)
	c := h.client
	s.use(c.party, stateids, -h.cost)
	delete(c.revoked, h)
	c.lost.Store(len(c.revoked) > 0)
	if len(c.revoked) == 0 {
		s.rewrite(c)
	}
}
