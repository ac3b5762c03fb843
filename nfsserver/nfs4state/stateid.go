package nfs4state

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A holding is state with a stateid: an Open, the locks of one owner through an
// Open, or a Delegation, which has its own Open.
type holding struct {
	client        *client
	open          *Open       // nil: the holding was revoked
	locks         *lockSet    // nil: not locks
	delegation    *Delegation // nil: not a Delegation
	index         uint32      // in State.holdings
	other         [nfs4.OtherSize]byte
	seqid         atomic.Uint32
	cost          int         // what it counts for, in stateids of its group
	revokedStatus nfs4.Status // the stateid's status, if the holding was or is being revoked

	// NFSv4.0 only:
	seqOwner       *seqOwner   // the owner
	keepAfterClose bool        // the stateid outlasts CLOSE, for a retry
	closed         atomic.Bool // by CLOSE
}

// StateID returns the stateid with its current seqid.
func (h *holding) StateID() nfs4.StateID { return nfs4.StateID{SeqID: h.seqid.Load(), Other: h.other} }

// bumpSeqID advances the seqid, which is never 0. The caller has locked the client.
func (h *holding) bumpSeqID() { h.seqid.Store(nextSeqID(h.seqid.Load())) }

// nextSeqID returns the seqid after the given one (RFC 8881, Section 8.2.2).
func nextSeqID(seqid uint32) uint32 {
	if seqid++; seqid == 0 {
		seqid = 1
	}
	return seqid
}

// assignStateID assigns an index and the next stateid to h, which belongs to an
// open-owner or a lock-owner:
//
//	other: epoch (32 bits) │ number's upper bits (12), index (20) │ number's lower 32 bits, permuted
//
// No stateid is used twice, although indexes are (RFC 8881, Section 8.2.4),
// because holdings are numbered. The permutation keeps clients from predicting
// other stateids.
func (s *State) assignStateID(h *holding, owner string) {
	h.index, h.cost = s.holdings.takeIndex(h.client.part), stateIDCost(len(owner))
	s.addUsage(h.client.group, stateIDs, h.cost)
	number := s.lastStateID.Add(1)
	binary.BigEndian.PutUint32(h.other[:], s.config.Epoch)
	binary.BigEndian.PutUint32(h.other[4:], uint32(number>>32)<<slabBits|h.index)
	binary.BigEndian.PutUint32(h.other[8:], permuteNumber(s.seed, uint32(number)))
}

// permuteNumber is a permutation of all numbers, by a Feistel network.
func permuteNumber(seed maphash.Seed, n uint32) uint32 {
	left, right := uint16(n>>16), uint16(n)
	for round := range uint16(4) {
		left, right = right, left^uint16(maphash.Comparable(seed, [2]uint16{round, right}))
	}
	return uint32(left)<<16 | uint32(right)
}

// lookupHolding returns any client's holding with a stateid, or nil. It ignores the seqid.
func (s *State) lookupHolding(id *nfs4.StateID) *holding {
	if !s.isOwnEpoch(binary.BigEndian.Uint32(id.Other[:])) {
		return nil
	}
	h := s.holdings.get(binary.BigEndian.Uint32(id.Other[4:]) % slabSize)
	if h == nil || h.other != id.Other {
		return nil
	}
	return h
}

// findClientHolding returns the holding with a stateid if it belongs to the
// session's client, and otherwise nil.
func (s *State) findClientHolding(session *Session, id *nfs4.StateID) *holding {
	if h := s.lookupHolding(id); h != nil && h.client == session.client {
		return h
	}
	return nil
}

// findHolding returns the holding with a stateid of session's client, and checks
// the seqid. Seqid 0 means the current seqid; an older seqid is
// NFS4ERR_OLD_STATEID (RFC 8881, Section 8.2.2). Special stateids are
// NFS4ERR_BAD_STATEID.
func (s *State) findHolding(session *Session, id *nfs4.StateID) (*holding, nfs4.Status) {
	h := s.findClientHolding(session, id)
	switch {
	case h == nil:
		return nil, nfs4.ErrBadStateID
	case h.open == nil:
		return h, h.revokedStatus
	case h.seqOwner != nil && (h.closed.Load() || !h.seqOwner.confirmed.Load()):
		return nil, nfs4.ErrBadStateID
	}
	return h, h.checkSeqID(id.SeqID)
}

// Open returns the Open for a stateid with which a client uses an object: the
// stateid of the Open, or of locks through the Open. If only the seqid is wrong,
// it returns both the Open and the status: an error for another object comes
// first (RFC 8881, Section 8.2.4).
func (s *State) Open(session *Session, id *nfs4.StateID) (*Open, nfs4.Status) {
	h, status := s.findHolding(session, id)
	if h == nil {
		return nil, status
	}
	return h.open, status
}

// findOpen returns the Open whose own stateid is id, also if only the seqid is
// wrong.
func (s *State) findOpen(session *Session, id *nfs4.StateID) (*Open, nfs4.Status) {
	h, status := s.findHolding(session, id)
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

// checkSeqID returns the status for a stateid's seqid. In NFSv4.0, 0 counts as an old
// seqid (RFC 7530, Section 9.1.4.4).
func (h *holding) checkSeqID(seqid uint32) nfs4.Status {
	switch d := int32(seqid - h.seqid.Load()); {
	case d == 0, seqid == 0 && h.seqOwner == nil:
		return nfs4.OK
	case d < 0, seqid == 0:
		return nfs4.ErrOldStateID
	}
	return nfs4.ErrBadStateID
}

// TestStateID implements TEST_STATEID for one stateid (RFC 8881, Section
// 18.48).
func (s *State) TestStateID(session *Session, id *nfs4.StateID) nfs4.Status {
	_, status := s.findHolding(session, id)
	return status
}

// FreeStateID implements FREE_STATEID (RFC 8881, Section 18.38). Unless they
// were revoked, Opens can be freed only by CLOSE, and lockSets only when no
// byte is locked.
func (s *State) FreeStateID(session *Session, id *nfs4.StateID) nfs4.Status {
	return retryWhole(func(whole bool) nfs4.Status { return s.freeStateID(session, id, whole) })
}

func (s *State) freeStateID(session *Session, id *nfs4.StateID, whole bool) nfs4.Status {
	var none deferredWork // no work: no bytes are locked
	s.lockClient(session.client, &none.hold, whole)
	defer s.unlock(&none.hold)
	h, status := s.findHolding(session, id)
	switch {
	case h != nil && h.open == nil && !none.isWhole():
		return statusNeedsState // to rewrite the client's record
	case h != nil && h.open == nil:
		s.freeRevoked(h)
		return nfs4.OK
	case status != nfs4.OK:
		return status
	case h.locks == nil || h.locks.part.Len() > 0:
		return nfs4.ErrLocksHeld
	}
	s.lockFile(h.open.Key, &none.hold)
	s.endLocks(h.locks, &none)
	return nfs4.OK
}
