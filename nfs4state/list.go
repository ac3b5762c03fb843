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
	Impl        string // the name of the client's implementation: any bytes
	Transport   Transport
	Minor       uint32 // minor version of its EXCHANGE_ID, or 0 of SETCLIENTID
	Principal   Principal
	Confirmed   bool
	Courtesy    bool          // the lease has expired, but nobody has needed the client's state
	Silent      time.Duration // since a call last renewed the lease; of an unconfirmed record: since it was made
	Sessions    []SessionInfo
	Machine     bool           // of NLM: Owner is its name, and Addr its address
	Addr        netip.AddrPort // of version 4.0: the sender of SETCLIENTID
	Callback    Callback       // of version 4.0
	Opens       int
	Locks       int // byte ranges
	Delegations int
	Writes      int // delegations for writing
	Revoked     int // stateids
}

// A SessionInfo is a snapshot of a session.
type SessionInfo struct {
	Slots   int
	Running int // slots that execute a call
	Conns   []any
}

// Counts are the numbers of the records of a State, and their bounds.
type Counts struct {
	Clients, Unconfirmed                  int // records; Clients has both kinds
	Sessions                              int
	Opens, Locks                          int
	Delegations, Writes                   int    // Writes are delegations for writing
	Granted, Recalled, RevokedDelegations uint64 // delegations so far
	Replies, MaxReplies                   int64  // bytes that the slots of all sessions can keep
	Records                               int    // clients in Config.Journal
	Failing                               bool   // the journal cannot be written
}

// Counts returns the numbers.
func (s *State) Counts() Counts {
	s.ledger.mu.Lock()
	failing := s.ledger.failing
	s.ledger.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := Counts{
		Records: len(s.ledger.records), Failing: failing,
		Clients: s.used[clientRecords], Unconfirmed: s.used[unconfirmedRecords], Sessions: s.used[liveSessions],
		Delegations: s.used[delegated], Writes: s.delegations.writes, Granted: s.delegations.granted, Recalled: s.delegations.recalled, RevokedDelegations: s.delegations.revoked,
		Locks: s.used[lockRanges], Replies: int64(s.used[replyBytes]), MaxReplies: replyMemory,
	}
	for _, c := range s.clients {
		n.Opens += len(c.opens)
	}
	return n
}

// Clients returns the oldest limit client records, by client ID, and the number
// of all.
func (s *State) Clients(limit int) (list []ClientInfo, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.config.Now()
	clients := make([]*client, 0, len(s.clients))
	for _, c := range s.clients {
		clients = append(clients, c)
	}
	slices.SortFunc(clients, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
	list = make([]ClientInfo, 0, min(limit, len(clients)))
	for _, c := range clients[:cap(list)] {
		list = append(list, c.info(now, s.config.Lease))
	}
	return list, len(clients)
}

// info returns a snapshot of c.
func (c *client) info(now, lease time.Duration) ClientInfo {
	i := ClientInfo{
		ID: c.id, Owner: c.key.id, Impl: c.impl, Transport: c.key.transport &^ sessionless, Minor: c.minor, Principal: c.principal,
		Confirmed: c.confirmed, Opens: len(c.opens), Locks: c.locks, Delegations: len(c.delegations), Writes: c.writes, Revoked: len(c.revoked), Silent: now - c.made,
	}
	if c.confirmed {
		i.Silent = c.silent(now)
		i.Courtesy = i.Silent > lease
	}
	if m, ok := machineOf(c.key); ok {
		i.Machine, i.Owner, i.Transport, i.Addr, i.Courtesy = true, m.Name, TCP, netip.AddrPortFrom(m.Addr, 0), false
		i.Opens = c.shares()
		return i
	}
	if c.seq != nil {
		i.Addr, i.Callback = c.seq.addr, c.seq.callback
		return i
	}
	for _, session := range c.sessions {
		i.Sessions = append(i.Sessions, session.info())
	}
	return i
}

// info returns a snapshot of s.
func (s *Session) info() SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := SessionInfo{Slots: len(s.slots), Running: s.running}
	for conn := range s.conns {
		i.Conns = append(i.Conns, conn)
	}
	return i
}
