package nfs4state

import "time"

// A holder is a client or a Machine, as the owner of locks and share reservations of files, and of
// a record in the journal. State.mu guards it, except what its part of the State guards.
type holder struct {
	client  *client        // nil: a Machine
	machine *MachineRecord // nil: a client

	id              uint64
	number          uint64 // increases with each record
	part            uint8  // of the State
	key             ownerKey
	group           *clientGroup
	ended           bool
	endRecord       uint64 // the journal record of its end
	lastRecord      uint64 // number of its last record
	partlyReclaimed bool   // after a restart it may reclaim nothing, although no stateid is revoked

	// The part guards these.
	hadKinds    stateKinds // kinds of state in its record
	unusedKinds stateKinds // the subset that it has not had since the last trimRecord
	lockSets    int        // number of ownerLocks
	locks       int        // in these
	denyOpens   int        // opens and SHAREs with a deny mode
}

// hasReclaimableState reports whether h has state that it may reclaim after a restart.
func (h *holder) hasReclaimableState() bool {
	if c := h.client; c != nil {
		return len(c.opens) > 0 || len(c.delegations) > 0
	}
	return len(h.machine.files) > 0
}

// holderOf returns the holder to which a record in the journal belongs, or nil. State.mu is held.
func (s *State) holderOf(key ownerKey) *holder {
	if m, ok := machineOf(key); ok {
		if r := s.machines[m]; r != nil {
			return &r.holder
		}
	} else if o := s.owners[key]; o != nil && o.confirmed != nil {
		return &o.confirmed.holder
	}
	return nil
}

// isSilent reports whether h is a client whose lease has expired. A Machine with state has no lease.
func (h *holder) isSilent(lease, now time.Duration) bool {
	return h.client != nil && h.client.silentFor(now) > lease
}
