package nfs4state

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// name gives o the next stateid:
//
//	other: epoch (32 bits) │ number's upper bits (12), index (20) │ number's lower 32 bits, permuted
//
// No stateid comes twice, whatever becomes of the index (RFC 8881, Section
// 8.2.4): Opens are numbered. The permutation keeps one from being guessed out of
// another.
func (s *State) name(o *Open) {
	s.opened++
	binary.BigEndian.PutUint32(o.other[:], s.config.Epoch)
	binary.BigEndian.PutUint32(o.other[4:], uint32(s.opened>>32)<<slabBits|o.index)
	binary.BigEndian.PutUint32(o.other[8:], permute(s.seed, uint32(s.opened)))
}

// permute maps each number to another one: it is a Feistel network.
func permute(seed maphash.Seed, n uint32) uint32 {
	left, right := uint16(n>>16), uint16(n)
	for round := range uint16(4) {
		left, right = right, left^uint16(maphash.Comparable(seed, [2]uint16{round, right}))
	}
	return uint32(left)<<16 | uint32(right)
}

// find returns the Open of a stateid that this State gave to the client of a
// session, whatever its seqid.
func (s *State) find(session *Session, id *nfs4.StateID) *Open {
	if !s.ours(binary.BigEndian.Uint32(id.Other[:])) {
		return nil
	}
	o := s.slab.get(binary.BigEndian.Uint32(id.Other[4:]) % slabSize)
	if o == nil || o.other != id.Other || o.client != session.client {
		return nil
	}
	return o
}

// Open returns the Open of a stateid that the client of session holds. Seqid 0
// stands for the current one; an older one is NFS4ERR_OLD_STATEID (RFC 8881,
// Section 8.2.2). The special stateids are NFS4ERR_BAD_STATEID.
func (s *State) Open(session *Session, id *nfs4.StateID) (*Open, nfs4.Status) {
	o := s.find(session, id)
	if o == nil {
		return nil, nfs4.ErrBadStateID
	}
	return o, o.compare(id.SeqID)
}

// compare judges the seqid of a stateid.
func (o *Open) compare(seqid uint32) nfs4.Status {
	switch d := int32(seqid - o.seqid.Load()); {
	case seqid == 0 || d == 0:
		return nfs4.OK
	case d < 0:
		return nfs4.ErrOldStateID
	}
	return nfs4.ErrBadStateID
}

// TestStateID is TEST_STATEID for one stateid (RFC 8881, Section 18.48).
func (s *State) TestStateID(session *Session, id *nfs4.StateID) nfs4.Status {
	_, status := s.Open(session, id)
	return status
}

// FreeStateID is FREE_STATEID (RFC 8881, Section 18.38): an Open is freed by
// CLOSE alone.
func (s *State) FreeStateID(session *Session, id *nfs4.StateID) nfs4.Status {
	if _, status := s.Open(session, id); status != nfs4.OK {
		return status
	}
	return nfs4.ErrLocksHeld
}
