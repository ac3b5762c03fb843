package nfs4state

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Machine names a client of the Network Lock Manager (NLM), by which clients of
// NFS version 3 lock files. Machines of one name at two addresses are two clients, so
// that no machine can use the locks of another by its name alone. Local is this
// server's address at which the client calls: the client believes calls from
// that address alone.
type Machine struct {
	Addr, Local netip.Addr
	Name        string // caller_name: any bytes
}

// lockManager is in the place of a Transport in the names of Machines.
const lockManager Transport = 1 << 6

// key returns the name of m's client record. An address that is missing has no text there.
func (m *Machine) key() ownerKey {
	addr, _ := m.Addr.MarshalText()
	local, _ := m.Local.MarshalText()
	return ownerKey{lockManager, string(addr) + " " + string(local) + " " + m.Name}
}

// machineOf returns the Machine of a client record, if it is of one.
func machineOf(key ownerKey) (m Machine, ok bool) {
	if key.transport != lockManager {
		return m, false
	}
	addr, rest, _ := strings.Cut(key.id, " ")
	local, name, _ := strings.Cut(rest, " ")
	m.Name = name
	m.Addr, _ = netip.ParseAddr(addr) // of our own making, but for an address that is missing
	m.Local, _ = netip.ParseAddr(local)
	return m, true
}

// managed reports whether c is a Machine: it has no lease, and keeps what it
// holds until it gives that back, or tells that it has restarted, or an administrator
// ends it.
func (c *client) managed() bool { return c.key.transport == lockManager }

// EnterMachine begins a call of a Machine, and returns the Session that stands for it
// until Leave. A Machine that holds nothing is forgotten at Leave or, if it had something,
// after a lease: calls of machines without end, whose addresses may be false, leave nothing.
// NFS4ERR_DELAY says that there is no room for another, and NFS4ERR_GRACE that the Machine
// has restarted, and a call from before that runs yet: see EndMachines.
func (s *State) EnterMachine(m Machine, party fairshare.Name) (*Session, nfs4.Status) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := m.key()
	o := s.owners[key]
	if o == nil {
		if _, _, _, status := s.newClient(key, &Exchange{Party: party}, &gone); status != nfs4.OK {
			return nil, status
		}
		o = s.owners[key]
		c := o.unconfirmed
		session := &Session{state: s, client: c, used: s.config.Now()}
		s.confirm(c, nil, &gone)
		c.sessions = []*Session{session}
	}
	session := o.confirmed.sessions[0]
	if session.enter() != nfs4.OK {
		return nil, nfs4.ErrGrace
	}
	return session, nfs4.OK
}

// leaveMachine ends a Machine at the end of its last call that runs, if the Machine is over (see
// EndMachines), or if it holds nothing, and nothing is to be remembered of it.
func (s *State) leaveMachine(c *client, over bool) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.ledger.records[c.key]; c.ended || !over && (known || c.holds()) {
		return
	}
	s.end(c, nil, always, &gone) // unless another call has begun
}

// Enter begins another call of a Machine, and returns false if the Machine has ended. Leave
// must follow.
func (s *Session) Enter() bool { return s.enter() == nfs4.OK }

// Machine returns the Machine of a session, if it is of one.
func (s *Session) Machine() (Machine, bool) { return machineOf(s.client.key) }

// Machines returns the Machines that have had locks when an earlier State ended, and
// are to be told of the restart. Those that may reclaim come first, because grace runs
// meanwhile; the others could not be told so far.
func (p *Past) Machines() (list []Machine) {
	var others []Machine
	for key, r := range p.clients {
		switch m, ok := machineOf(key); {
		case ok && r.revoked:
			others = append(others, m)
		case ok:
			list = append(list, m)
		}
	}
	return append(list, others...)
}

// expected reports whether a Machine may reclaim, or has yet to hear of the restart: its
// record stays, however long it is silent. State.mu is held.
func (s *State) expected(key ownerKey) bool {
	_, untold := s.untold[key]
	r, ok := s.ledger.records[key]
	return ok && (untold || !r.fresh)
}

// Told notes that a Machine of Past.Machines has heard of the restart: the next State
// tells it nothing, unless the Machine has locks again.
func (s *State) Told(m Machine) {
	s.mu.Lock()
	key := m.key()
	delete(s.untold, key)
	o, r := s.owners[key], s.ledger.records[key]
	over := r.fresh && (o == nil || o.confirmed == nil || !o.confirmed.holds())
	if over {
		s.strike(key)
	}
	s.mu.Unlock()
	if over {
		s.store()
	}
}

// EndMachines ends all Machines at an address whose names are chosen, with all that
// they hold. One whose calls run ends with the last of them. Until then its further calls
// fail: what a machine locks after its restart must not end with what it had before.
func (s *State) EndMachines(addr netip.Addr, chosen func(name string) bool) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		m, ok := machineOf(c.key)
		if !ok || m.Addr != addr || !chosen(m.Name) {
			continue
		}
		if !s.end(c, nil, always, &gone) {
			c.sessions[0].die()
		}
	}
}

// MachineNames returns the names of the Machines at an address, without duplicates.
func (s *State) MachineNames(addr netip.Addr) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if m, ok := machineOf(c.key); ok && m.Addr == addr && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

// InGrace reports whether a session's Machine may do nothing but reclaim: a client
// may still reclaim a lock that could be in the way, or the Machine itself may.
func (s *State) InGrace(session *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locksWait(session.client)
}

// locksWait reports whether locks of a client that are no reclaims must wait. State.mu
// is held.
func (s *State) locksWait(c *client) bool {
	return s.reclaims(c) || s.grace() && s.ledger.staleLocks+s.ledger.staleDelegations > 0
}
