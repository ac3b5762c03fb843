package nfs4state

import (
	"hash/maphash"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

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

// lockManager is the Transport in the journal's records of Machines.
const lockManager Transport = 1 << 6

// ownerKey returns the key of m's record in the journal. A missing address is an empty string.
func (m *Machine) ownerKey() ownerKey {
	addr, _ := m.Addr.MarshalText()
	local, _ := m.Local.MarshalText()
	return ownerKey{lockManager, string(addr) + " " + string(local) + " " + m.Name}
}

// machineOf returns the Machine of a record in the journal, if the record is a
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

// withoutLocal returns m at any address of the server.
func (m Machine) withoutLocal() Machine {
	m.Local = netip.Addr{}
	return m
}

// reclaimRecord returns a holder's record and its key. A Machine without one has that of the same
// Machine at another address of the server, if that may still reclaim: the service has moved to
// another host. State.mu is held.
func (s *State) reclaimRecord(h *holder) (key ownerKey, r record, ok bool) {
	if r, ok = s.ledger.records[h.key]; ok || h.machine == nil {
		return h.key, r, ok
	}
	if key, ok = s.reclaimers[h.machine.withoutLocal()]; ok {
		r, ok = s.ledger.records[key]
	}
	return key, r, ok && !r.current
}

// moveRecord makes the record of a Machine that reclaims at another address of the server than
// before its own. State.mu is held.
func (s *State) moveRecord(h *holder, from ownerKey, r record) {
	delete(s.unnotified, from) // the Machine knows of the restart
	s.setRecord(h.key, r)
	h.lastRecord = s.enqueueRecord(r.appendTo(nil, h.key))
	s.recordClientGone(from)
}

// A MachineRecord has a Machine's locks and SHAREs, by file. A Machine has no lease: it keeps its
// state until it releases it, reports a restart, or is removed by an administrator.
type MachineRecord struct {
	Machine
	holder
	state        *State
	vouched      atomic.Bool  // see MarkVouched
	monitorState atomic.Int32 // see NoteState

	// The part of the State guards these.
	files      map[string]*machineFile // by the object's key
	handles    map[string]*machineFile // see FindKey
	shareCount int
	running    int           // calls
	calledAt   time.Duration // when the last call ended
	dead       bool          // no call begins
}

// EnterMachine begins a Machine's call, until Leave, and returns the Machine's record. A record
// without state is removed at Leave or, if it had state, after a lease: calls from any number of
// machines, whose addresses may be forged, leave nothing behind. NFS4ERR_DELAY means that a limit is
// reached, and NFS4ERR_GRACE that the Machine has restarted while an earlier call is still running:
// see EndMachines.
func (s *State) EnterMachine(id Machine, party fairshare.Name) (m *MachineRecord, status nfs4.Status) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	part := uint8(maphash.Comparable(s.seed, id) % stateParts)
	status = retryWhole(func(whole bool) nfs4.Status {
		if whole {
			s.mu.Lock()
		} else {
			deferred.part = s.mu.lockPart(part)
		}
		defer s.unlock(&deferred.hold)
		if m = s.machines[id]; m == nil {
			if !whole {
				return statusNeedsState
			}
			if m = s.newMachine(id, part, party, &deferred); m == nil {
				return nfs4.ErrDelay
			}
		}
		return m.beginCall()
	})
	return m, status
}

// newMachine creates a Machine's record, unless a limit is reached.
func (s *State) newMachine(id Machine, part uint8, party fairshare.Name, deferred *deferredWork) *MachineRecord {
	group := s.groupForRecord(party, deferred)
	if group == nil {
		return nil
	}
	if !s.hasQuota(group, machineRecords, 1) {
		s.addUsage(group, clientRecords, 0) // forget a group that has nothing
		return nil
	}
	s.lastClientNumber++
	m := &MachineRecord{
		Machine: id, state: s, files: make(map[string]*machineFile), handles: make(map[string]*machineFile),
		holder: holder{id: s.newClientID(), number: s.lastClientNumber, part: part, key: id.ownerKey(), group: group},
	}
	m.machine = m
	s.addUsage(group, clientRecords, 1)
	s.addUsage(group, machineRecords, 1)
	s.machines[id] = m
	return m
}

// beginCall begins a call. The Machine is not removed during the call.
func (m *MachineRecord) beginCall() nfs4.Status {
	if m.dead {
		return nfs4.ErrGrace
	}
	m.running++
	return nfs4.OK
}

// Enter begins another call, and returns false if the Machine was removed. The caller must call
// Leave.
func (m *MachineRecord) Enter() bool {
	defer m.state.mu.lockPart(m.part).unlock()
	return m.beginCall() == nfs4.OK
}

// Leave ends a call.
func (m *MachineRecord) Leave() {
	s := m.state
	p := s.mu.lockPart(m.part)
	m.running--
	m.calledAt = s.config.Now()
	unused := s.isUnused(m)
	p.unlock()
	if !unused {
		return
	}
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isUnused(m) { // no other call has begun
		s.endMachine(m, &deferred)
	}
}

// isUnused reports whether a Machine has neither running calls, nor, unless it has restarted, state
// or a record in the journal. A part is locked.
func (s *State) isUnused(m *MachineRecord) bool {
	_, recorded := s.ledger.records[m.key]
	return m.running == 0 && (m.dead || !recorded && len(m.files) == 0)
}

// Ended reports whether the Machine was removed, or will be after its running calls.
func (m *MachineRecord) Ended() bool {
	defer m.state.mu.lockPart(m.part).unlock()
	return m.dead
}

// endMachine removes a Machine with all its state, or lets the last of its running calls do so.
// State.mu is held.
func (s *State) endMachine(m *MachineRecord, deferred *deferredWork) {
	if m.dead = true; m.running > 0 || m.ended {
		return
	}
	m.ended = true
	m.endRecord = s.recordClientGone(m.key)
	delete(s.machines, m.Machine)
	s.addUsage(m.group, machineRecords, -1)
	s.beginEnding(&m.holder, deferred)
}

// endMachineStep removes state of a removed Machine until State.mu should be released, and reports
// whether nothing is left.
func (s *State) endMachineStep(m *MachineRecord, deferred *deferredWork) bool {
	for _, f := range m.files {
		s.holdGrants(f.file.key, m.endRecord)
		if !s.endMachineFile(f, deferred) {
			return false
		}
	}
	return true
}

// removeIdleMachines removes the Machines that have been without state for a lease. One that may
// reclaim, or has not been notified of the restart, stays, because its record must. State.mu is held.
func (s *State) removeIdleMachines(now time.Duration, deferred *deferredWork) {
	for _, m := range s.machines {
		s.mu.pauseLocked()
		_, untold := s.unnotified[m.key]
		if r, ok := s.ledger.records[m.key]; ok && (untold || !r.current) {
			continue
		}
		if m.running == 0 && len(m.files) == 0 && now-m.calledAt > s.config.Lease {
			s.endMachine(m, deferred)
		}
	}
}

// expireMachine removes the Machine with an id, for Expire. State.mu is held.
func (s *State) expireMachine(id uint64, deferred *deferredWork) nfs4.Status {
	for _, m := range s.machines {
		s.mu.pauseLocked()
		switch {
		case m.id != id || m.ended:
		case m.running > 0:
			return nfs4.ErrDelay
		default:
			s.endMachine(m, deferred)
			return nfs4.OK
		}
	}
	return nfs4.ErrStaleClientID
}

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

// MarkNotified records that a Machine from Past.Machines was notified of the restart: the
// next State does not notify it, unless the Machine has locks again.
func (s *State) MarkNotified(id Machine) {
	s.mu.Lock()
	key := id.ownerKey()
	delete(s.unnotified, key)
	m, current := s.machines[id], s.ledger.records[key].current
	switch {
	case !current:
	case m == nil || len(m.files) == 0:
		s.recordClientGone(key)
	default:
		s.writeRecord(&m.holder)
	}
	s.mu.Unlock()
	if current {
		s.storeQueue()
	}
}

// MarkVouched records that the superuser of a Machine's host vouches for calls that lock
// files.
func (m *MachineRecord) MarkVouched() { m.vouched.Store(true) }

// unknownState represents an unknown state number in EndMachines.
const unknownState = -1

// NoteState records the state number of the status monitor on a Machine's host, from the first
// call that locks a file. 0 means that the call does not contain it, as Linux's reclaims: the
// number is then unknownState, also for later calls.
func (m *MachineRecord) NoteState(n int32) {
	if n == 0 {
		n = unknownState
	}
	m.monitorState.CompareAndSwap(0, n)
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
	for _, m := range s.machines {
		s.mu.pauseLocked()
		if m.Addr == addr && chosen(m.Name, m.vouched.Load(), m.monitorState.Load()) {
			s.endMachine(m, &deferred)
		}
	}
}

// InGrace reports whether a Machine may only reclaim: it may still reclaim itself, or another client
// may still reclaim a lock that could conflict.
func (m *MachineRecord) InGrace() bool {
	var h hold
	m.state.lockHolder(&m.holder, &h, false)
	defer m.state.unlock(&h)
	return m.state.locksWait(&m.holder)
}

// locksWait reports whether a holder's locks that are not reclaims must wait. The holder is locked.
func (s *State) locksWait(h *holder) bool {
	return s.mustReclaimFirst(h) || s.checkGrace() && s.ledger.staleLocks+s.ledger.staleDelegations > 0
}

// clientInfo returns a snapshot of m. State.mu is held.
func (m *MachineRecord) clientInfo(now time.Duration) ClientInfo {
	i := ClientInfo{ID: m.id, Owner: m.Name, Confirmed: true, Machine: true, Addr: netip.AddrPortFrom(m.Addr, 0), Opens: m.shareCount, Locks: m.locks}
	if m.running == 0 && len(m.files) == 0 {
		i.Silent = now - m.calledAt
	}
	return i
}
