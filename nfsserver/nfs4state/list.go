package nfs4state

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// A ClientInfo is a snapshot of a client record, for administrators.
type ClientInfo struct {
	ID          uint64
	Owner       string // co_ownerid: any bytes
	Impl        string // the client's implementation name: any bytes
	Transport   Transport
	Minor       uint32 // minor version of its EXCHANGE_ID, or 0 after SETCLIENTID
	Principal   Principal
	Confirmed   bool
	Courtesy    bool          // the lease has expired, but no client has needed the state
	Silent      time.Duration // since a call last renewed the lease or, if unconfirmed, since the record was created
	Sessions    []sessionSnapshot
	Machine     bool           // an NLM client: Owner is its name, and Addr its address
	Addr        netip.AddrPort // NFSv4.0 only: the sender of SETCLIENTID
	Callback    Callback       // NFSv4.0 only
	Opens       int
	Locks       int // byte ranges
	Delegations int
	Writes      int // write delegations
	Revoked     int // stateids
}

// A sessionSnapshot is a snapshot of a session.
type sessionSnapshot struct {
	Slots   int // that the client should use
	Running int // slots that execute a call
	Conns   []any
}

// Counts has the number of records in a State, and some limits.
type Counts struct {
	Clients, Unconfirmed                  int // records; Clients has both kinds
	Sessions                              int
	Opens, Locks                          int
	Delegations, Writes                   int    // Writes are write delegations
	Granted, Recalled, RevokedDelegations uint64 // delegations so far
	Replies, MaxReplies                   int64  // bytes that all sessions' slots can cache
	Records                               int    // clients in Config.Journal
	Failing                               bool   // the journal cannot be written
}

// Counts returns the current numbers.
func (s *State) Counts() Counts {
	s.ledger.mu.Lock()
	failing := s.ledger.failing
	s.ledger.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := Counts{
		Records: len(s.ledger.records), Failing: failing,
		Clients: s.usage.get(clientRecords), Unconfirmed: s.usage.get(unconfirmedRecords), Sessions: s.usage.get(liveSessions),
		Delegations: s.usage.get(delegatedFiles), Writes: int(s.delegations.writes.Load()), Granted: s.delegations.granted.Load(), Recalled: s.delegations.recalled, RevokedDelegations: s.delegations.revoked,
		Locks: s.usage.get(lockRanges), Replies: int64(s.usage.get(replyBytes)), MaxReplies: replyMemory,
	}
	for _, c := range s.clients {
		s.mu.pauseLocked()
		n.Opens += len(c.opens)
	}
	for _, m := range s.machines {
		s.mu.pauseLocked()
		n.Opens += m.shareCount
	}
	return n
}

// CountClients returns the number of all that Clients lists, in constant time.
func (s *State) CountClients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients) + len(s.machines)
}

// Clients returns the oldest limit client records, the oldest first, and the total
// number. Clients that end during the call may be missing.
func (s *State) Clients(limit int) (list []ClientInfo, all int) {
	type record struct {
		number, id uint64
		machine    *MachineRecord // nil: a client
	}
	var records []record
	s.mu.Lock()
	for _, c := range s.clients {
		s.mu.pauseLocked()
		records = append(records, record{c.number, c.id, nil})
	}
	for _, m := range s.machines {
		s.mu.pauseLocked()
		records = append(records, record{m.number, m.id, m})
	}
	s.mu.Unlock()
	slices.SortFunc(records, func(a, b record) int { return cmp.Compare(a.number, b.number) })
	list = make([]ClientInfo, 0, min(limit, len(records)))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records[:cap(list)] {
		s.mu.pauseLocked()
		if c := s.clients[r.id]; c != nil {
			list = append(list, s.clientInfo(c))
		} else if m := r.machine; m != nil && !m.ended {
			list = append(list, m.clientInfo(s.config.Now()))
		}
	}
	return list, len(records)
}

// Client returns a client record or Machine, or false if there is none with that ID.
func (s *State) Client(id uint64) (ClientInfo, bool) {
	h := s.findHolder(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case h == nil || h.ended:
		return ClientInfo{}, false
	case h.client != nil:
		return s.clientInfo(h.client), true
	}
	return h.machine.clientInfo(s.config.Now()), true
}

// clientInfo returns a snapshot of c. State.mu is held, but released for moments after some
// connections.
func (s *State) clientInfo(c *client) ClientInfo {
	now := s.config.Now()
	i := ClientInfo{
		ID: c.id, Owner: c.key.id, Impl: c.impl, Transport: c.key.transport &^ sessionless, Minor: c.minor, Principal: c.principal,
		Confirmed: c.confirmed, Opens: len(c.opens), Locks: c.locks, Delegations: len(c.delegations), Writes: c.writeDelegations, Revoked: len(c.revoked), Silent: now - c.createdAt,
	}
	if c.confirmed {
		i.Silent = c.silentFor(now)
		i.Courtesy = i.Silent > s.config.Lease
	}
	if c.v40 != nil {
		i.Addr, i.Callback = c.v40.addr, c.v40.callback
		return i
	}
	for _, session := range slices.Clone(c.sessions) {
		info := session.sessionInfo()
		i.Sessions = append(i.Sessions, info)
		s.mu.entries += len(info.Conns)
		s.mu.pauseLocked()
	}
	return i
}

// sessionInfo returns a snapshot of s.
func (s *Session) sessionInfo() sessionSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := sessionSnapshot{Slots: int(s.target), Running: s.running}
	for conn := range s.conns {
		i.Conns = append(i.Conns, conn)
	}
	return i
}
