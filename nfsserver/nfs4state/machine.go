package nfs4state

import (
	"net/netip"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Machine identifies a client of the Network Lock Manager (NLM), which NFSv3
// clients use to lock files. Machines with the same name at two addresses are two
// clients, so that no machine can use another's locks just by its name. Local is the
// server address that the client calls: the client accepts calls only from that
// address.
type Machine struct {
	Addr, Local netip.Addr
	Name        string // caller_name: any bytes
}

// lockManager replaces the Transport in the ownerKeys of Machines.
const lockManager Transport = 1 << 6

// ownerKey returns the key of m's client record. A missing address is an empty string.
func (m *Machine) ownerKey() ownerKey {
	addr, _ := m.Addr.MarshalText()
	local, _ := m.Local.MarshalText()
	return ownerKey{lockManager, string(addr) + " " + string(local) + " " + m.Name}
}

// machineOf returns the Machine of a client record, if the record is a
// Machine's.
func machineOf(key ownerKey) (m Machine, ok bool) {
	if key.transport != lockManager {
		return m, false
	}
	addr, rest, _ := strings.Cut(key.id, " ")
	local, name, _ := strings.Cut(rest, " ")
	m.Name = name
	m.Addr, _ = netip.ParseAddr(addr) // fails only if the address is missing
	m.Local, _ = netip.ParseAddr(local)
	return m, true
}

// isMachine reports whether c is a Machine. A Machine has no lease: it keeps its
// state until it releases it, reports a restart, or is removed by an administrator.
func (c *client) isMachine() bool { return c.key.transport == lockManager }

// EnterMachine begins a Machine's call, and returns the Session that represents it until
// Leave. A Machine without state is removed at Leave or, if it had state, after a lease:
// calls from any number of machines, whose addresses may be forged, leave nothing behind.
// NFS4ERR_DELAY means that a limit is reached, and NFS4ERR_GRACE that the Machine has
// restarted while an earlier call is still running: see EndMachines.
func (s *State) EnterMachine(m Machine, party fairshare.Name) (*Session, nfs4.Status) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := m.ownerKey()
	o := s.owners[key]
	if o == nil {
		if _, _, _, status := s.newClient(key, &Exchange{Party: party}, &deferred); status != nfs4.OK {
			return nil, status
		}
		o = s.owners[key]
		c := o.unconfirmed
		session := &Session{state: s, client: c, renewedAt: s.config.Now()}
		s.confirmClient(c, nil, &deferred)
		c.sessions = []*Session{session}
	}
	session := o.confirmed.sessions[0]
	if session.beginCall() != nfs4.OK {
		return nil, nfs4.ErrGrace
	}
	return session, nfs4.OK
}

// leaveMachine removes a Machine after its last running call if over is set (see EndMachines),
// or if it has neither state nor a record.
func (s *State) leaveMachine(c *client, over bool) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.ledger.records[c.key]; c.ended || !over && (known || c.hasReclaimableState()) {
		return
	}
	s.endClient(c, nil, anyRenewal, &deferred) // unless another call has begun
}

// Enter begins another call of a Machine, and returns false if the Machine was removed. The
// caller must call Leave.
func (s *Session) Enter() bool { return s.beginCall() == nfs4.OK }

// Machine returns the session's Machine, if it represents one.
func (s *Session) Machine() (Machine, bool) { return machineOf(s.client.key) }

// Machines returns the Machines that had locks when an earlier State ended, and that
// must be notified of the restart. Those that may reclaim come first, because the
// grace period is limited; the others could not be notified so far.
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

// isMachineExpected reports whether a Machine may reclaim, or has not been notified of the
// restart: its record then stays, however long it is silent. State.mu is held.
func (s *State) isMachineExpected(key ownerKey) bool {
	_, untold := s.unnotified[key]
	r, ok := s.ledger.records[key]
	return ok && (untold || !r.current)
}

// MarkNotified records that a Machine from Past.Machines was notified of the restart: the
// next State does not notify it, unless the Machine has locks again.
func (s *State) MarkNotified(m Machine) {
	s.mu.Lock()
	key := m.ownerKey()
	delete(s.unnotified, key)
	o, r := s.owners[key], s.ledger.records[key]
	over := r.current && (o == nil || o.confirmed == nil || !o.confirmed.hasReclaimableState())
	if over {
		s.recordClientGone(key)
	}
	s.mu.Unlock()
	if over {
		s.storeQueue()
	}
}

// MarkVouched records that the superuser of a Machine's host vouches for calls that lock
// files.
func (s *Session) MarkVouched() { s.client.vouched.Store(true) }

// unknownState represents an unknown state number in EndMachines.
const unknownState = -1

// NoteState records the state number of the status monitor on a Machine's host, from the first
// call that locks a file. 0 means that the call does not contain it, as Linux's reclaims: the
// number is then unknownState, also for later calls.
func (s *Session) NoteState(n int32) {
	if n == 0 {
		n = unknownState
	}
	s.client.monitorState.CompareAndSwap(0, n)
}

// EndMachines removes the Machines at an address that chosen selects by name, by whether MarkVouched was
// called, and by the number from NoteState, with all their state. A Machine with running calls is
// removed after the last of them. Until then its further calls fail: locks that it sets after its
// restart must not be removed with its earlier ones.
func (s *State) EndMachines(addr netip.Addr, chosen func(name string, vouched bool, state int32) bool) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		s.mu.pauseLocked()
		m, ok := machineOf(c.key)
		if c.ended || !ok || m.Addr != addr || !chosen(m.Name, c.vouched.Load(), c.monitorState.Load()) {
			continue
		}
		if !s.endClient(c, nil, anyRenewal, &deferred) {
			c.sessions[0].markDead()
		}
	}
}

// InGrace reports whether a session's Machine may only reclaim: the Machine itself
// may still reclaim, or another client may still reclaim a lock that could
// conflict.
func (s *State) InGrace(session *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locksWait(session.client)
}

// locksWait reports whether a client's locks that are not reclaims must wait. State.mu
// is held.
func (s *State) locksWait(c *client) bool {
	return s.mustReclaimFirst(c) || s.checkGrace() && s.ledger.staleLocks+s.ledger.staleDelegations > 0
}
