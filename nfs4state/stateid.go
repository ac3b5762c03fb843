package nfs4state

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A holding has a stateid: it is an Open, the locks of one owner through an Open,
// or a Delegation, whose open is the Delegation's own.
type holding struct {
	client     *client
	open       *Open       // nil: the holding was revoked
	locks      *lockSet    // nil: not locks
	delegation *Delegation // nil: not a Delegation
	index      uint32      // in State.slab
	other      [nfs4.OtherSize]byte
	seqid      atomic.Uint32
	cost       int         // as stateids of its party
	revoked    nfs4.Status // of the stateid, if the holding ends or has ended by revocation

	// Of version 4.0:
	seq    *seqOwner   // has it
	keep   bool        // the stateid outlives CLOSE, for a retry
	closed atomic.Bool // by CLOSE
}

// StateID returns the stateid with its current seqid.
func (h *holding) StateID() nfs4.StateID { return nfs4.StateID{SeqID: h.seqid.Load(), Other: h.other} }

// bump advances the seqid, which is never 0. State.mu guards it against
// another.
func (h *holding) bump() { h.seqid.Store(after(h.seqid.Load())) }

// after returns the seqid that follows another (RFC 8881, Section 8.2.2).
func after(seqid uint32) uint32 {
	if seqid++; seqid == 0 {
		seqid = 1
	}
	return seqid
}

// name gives h, of an open-owner or a lock-owner, an index and the next stateid:
//
//	other: epoch (32 bits) │ number's upper bits (12), index (20) │ number's lower 32 bits, permuted
//
// No stateid comes twice, although an index does (RFC 8881, Section 8.2.4):
// holdings are numbered. The permutation keeps clients from guessing a stateid
// from another.
func (s *State) name(h *holding, owner string) {
	h.index, h.cost = s.slab.take(), costOf(len(owner))
	s.use(h.client.party, stateids, h.cost)
	s.named++
	binary.BigEndian.PutUint32(h.other[:], s.config.Epoch)
	binary.BigEndian.PutUint32(h.other[4:], uint32(s.named>>32)<<slabBits|h.index)
	binary.BigEndian.PutUint32(h.other[8:], permute(s.seed, uint32(s.named)))
}

// permute maps each number to another one: it is a Feistel network.
func permute(seed maphash.Seed, n uint32) uint32 {
	left, right := uint16(n>>16), uint16(n)
	for round := range uint16(4) {
		left, right = right, left^uint16(maphash.Comparable(seed, [2]uint16{round, right}))
	}
	return uint32(left)<<16 | uint32(right)
}

// at returns the holding of a stateid that this State gave to any client, or nil.
// The seqid does not matter.
func (s *State) at(id *nfs4.StateID) *holding {
	if !s.ours(binary.BigEndian.Uint32(id.Other[:])) {
		return nil
	}
	h := s.slab.get(binary.BigEndian.Uint32(id.Other[4:]) % slabSize)
	if h == nil || h.other != id.Other {
		return nil
	}
	return h
}

// find is at for a stateid of the client of a session.
func (s *State) find(session *Session, id *nfs4.StateID) *holding {
	if h := s.at(id); h != nil && h.client == session.client {
		return h
	}
	return nil
}

// holding returns the holding of a stateid of session's client. Seqid 0 stands
// for the current seqid; an older seqid is NFS4ERR_OLD_STATEID (RFC 8881, Section
// 8.2.2). The special stateids are NFS4ERR_BAD_STATEID.
func (s *State) holding(session *Session, id *nfs4.StateID) (*holding, nfs4.Status) {
	h := s.find(session, id)
	switch {
	case h == nil:
		return nil, nfs4.ErrBadStateID
	case h.open == nil:
		return h, h.revoked
	case h.seq != nil && (h.closed.Load() || !h.seq.confirmed.Load()):
		return nil, nfs4.ErrBadStateID
	}
	return h, h.compare(id.SeqID)
}

// Open returns the Open of a stateid for the use of its object: the stateid is
// that of the Open, or of locks through the Open. If only the seqid is wrong, the
// Open comes with the status: an error for another object comes first (RFC 8881,
// Section 8.2.4).
func (s *State) Open(session *Session, id *nfs4.StateID) (*Open, nfs4.Status) {
	h, status := s.holding(session, id)
	if h == nil {
		return nil, status
	}
	return h.open, status
}

// own returns the Open that has a stateid itself, also if only the seqid is
// wrong.
func (s *State) own(session *Session, id *nfs4.StateID) (*Open, nfs4.Status) {
	h, status := s.holding(session, id)
	switch {
	case h == nil:
		return nil, nfs4.ErrBadStateID
	case h.open == nil:
		return nil, status
	case h.locks != nil, h.delegation != nil:
		return nil, nfs4.ErrBadStateID
	}
	return h.open, status
}

// compare judges the seqid of a stateid. In version 4.0 seqid 0 is an old one like
// any other (RFC 7530, Section 9.1.4.4).
func (h *holding) compare(seqid uint32) nfs4.Status {
	switch d := int32(seqid - h.seqid.Load()); {
	case d == 0, seqid == 0 && h.seq == nil:
		return nfs4.OK
	case d < 0, seqid == 0:
		return nfs4.ErrOldStateID
	}
	return nfs4.ErrBadStateID
}

// TestStateID is TEST_STATEID for one stateid (RFC 8881, Section 18.48).
func (s *State) TestStateID(session *Session, id *nfs4.StateID) nfs4.Status {
	_, status := s.holding(session, id)
	return status
}

// FreeStateID is FREE_STATEID (RFC 8881, Section 18.38). An Open is freed by
// CLOSE alone, and locks when all are unlocked, unless they were revoked.
func (s *State) FreeStateID(session *Session, id *nfs4.StateID) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, status := s.holding(session, id)
	switch {
	case h != nil && h.open == nil:
		s.freeRevoked(h)
		return nfs4.OK
	case status != nfs4.OK:
		return status
	case h.locks == nil || h.locks.part.Len() > 0:
		return nfs4.ErrLocksHeld
	}
	var none released // because no bytes are locked
	s.endLocks(h.locks, &none)
	return nfs4.OK
}
