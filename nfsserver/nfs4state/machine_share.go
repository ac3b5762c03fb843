package nfs4state

import "github.com/nfsrdma/nfsrdma/nfs/nfs4"

// A Share holds the arguments of MachineRecord.Share.
type Share struct {
	Owner        []byte // oh
	Key          string // the object's key
	Access, Deny uint32 // ShareRead and ShareWrite
	Reclaim      bool
	Mark         any // like Handle, as in Lock
	Handle       []byte
}

// Share opens an object for an owner with a deny mode. It replaces the owner's earlier modes (NLM
// SHARE).
func (m *MachineRecord) Share(a *Share) nfs4.Status {
	s := m.state
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	return s.retryUntilStored(nil, func(whole bool) nfs4.Status {
		s.lockHolder(&m.holder, &deferred.hold, whole)
		defer s.unlock(&deferred.hold)
		f := s.lockFile(a.Key, &deferred.hold).files[a.Key]
		s.denyingOpens.Add(1) // see BeginSpecial; also while the owner's earlier modes are not in force
		defer s.denyingOpens.Add(-1)
		return m.tryShare(a, f, &deferred)
	})
}

func (m *MachineRecord) tryShare(a *Share, f *file, deferred *deferredWork) nfs4.Status {
	s, had := m.state, stateKinds(0)
	if a.Deny != 0 {
		had = hadDeny
	}
	switch {
	case m.ended:
		return nfs4.ErrBadSession
	case a.Reclaim:
		if status := s.mayReclaim(&m.holder, had); status != nfs4.OK {
			return status
		}
	case s.mustReclaimFirst(&m.holder), s.checkGrace() && (a.Deny != 0 || s.ledger.staleDeny > 0):
		return nfs4.ErrGrace
	}
	owner, before, known := string(a.Owner), uint32(0), false
	if own := m.files[a.Key]; own != nil {
		before, known = own.shares[owner]
	}
	cost, ok := m.useCost(a.Key, a.Handle, f)
	cost += stateIDCost(len(owner))
	switch {
	case !known && s.needsStateFor(m.group, stateIDs, cost, &deferred.hold):
		return statusNeedsState
	case !ok, !known && (m.shareCount >= maxOpens || !s.hasQuota(m.group, stateIDs, cost)):
		return nfs4.ErrDelay
	}
	if known {
		s.replaceModes(f, &m.holder, before, 0)
	}
	status := m.mayShare(a, had, f, deferred)
	switch {
	case status == nfs4.OK:
		m.useFile(a.Key, a.Handle, a.Mark).setShare(owner, shareModes(a.Access, a.Deny))
	case known:
		s.replaceModes(f, &m.holder, 0, before)
	}
	return status
}

// mayShare checks a SHARE against others' state, and whether it is recorded.
func (m *MachineRecord) mayShare(a *Share, had stateKinds, f *file, deferred *deferredWork) nfs4.Status {
	s := m.state
	switch status := s.resolveShareConflict(f, &m.holder, shareModes(a.Access, a.Deny), deferred); {
	case status != nfs4.OK:
		return status
	case a.Deny != 0 && s.hasSpecialUse(a.Key, a.Deny):
		return nfs4.ErrDelay
	}
	return s.recordState(&m.holder, had, a.Key, &deferred.hold)
}

// setShare adds an owner's modes, or replaces those that are no longer counted.
func (f *machineFile) setShare(owner string, modes uint32) {
	m := f.machine
	if _, known := f.shares[owner]; !known {
		if f.shares == nil {
			f.shares = make(map[string]uint32)
		}
		m.shareCount++
		m.state.addUsage(m.group, stateIDs, stateIDCost(len(owner)))
	}
	f.shares[owner] = modes
	m.state.replaceModes(f.file, &m.holder, 0, modes)
}

// endShare removes an owner's modes.
func (f *machineFile) endShare(owner string) {
	m := f.machine
	m.state.replaceModes(f.file, &m.holder, f.shares[owner], 0)
	delete(f.shares, owner)
	m.shareCount--
	m.state.addUsage(m.group, stateIDs, -stateIDCost(len(owner)))
}

// Unshare closes what Share has opened, if anything.
func (m *MachineRecord) Unshare(a *Share) {
	s := m.state
	var h hold
	s.lockHolder(&m.holder, &h, false)
	defer s.unlock(&h)
	s.lockFile(a.Key, &h)
	if f := m.files[a.Key]; f != nil {
		if _, known := f.shares[string(a.Owner)]; known {
			f.endShare(string(a.Owner))
			f.removeIfUnused()
		}
	}
}
