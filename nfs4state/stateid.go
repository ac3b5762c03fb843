package nfs4state

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A slab finds an Open by the index in its stateid, without a lock:
//
//	other: epoch (32 bits) │ index (32 bits) │ random (32 bits)
//
// The random part makes a stateid that was never given out, and one of an
// earlier Open with the same index, NFS4ERR_BAD_STATEID.
type slab struct {
	mu     sync.Mutex // for put and remove
	chunks [maxAllOpens / slabChunk]atomic.Pointer[[slabChunk]atomic.Pointer[Open]]
	free   []uint32
	next   uint32
}

const slabChunk = 1024

// put gives o an index and its stateid, and stores it. The caller bounds the
// number of Opens by maxAllOpens.
func (s *slab) put(o *Open, epoch uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		o.index, s.free = s.free[n-1], s.free[:n-1]
	} else {
		o.index = s.next
		s.next++
	}
	binary.BigEndian.PutUint32(o.other[:], epoch)
	binary.BigEndian.PutUint32(o.other[4:], o.index)
	binary.BigEndian.PutUint32(o.other[8:], uint32(random()))
	chunk := &s.chunks[o.index/slabChunk]
	if chunk.Load() == nil {
		chunk.Store(new([slabChunk]atomic.Pointer[Open]))
	}
	chunk.Load()[o.index%slabChunk].Store(o)
}

func (s *slab) remove(i uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunks[i/slabChunk].Load()[i%slabChunk].Store(nil)
	s.free = append(s.free, i)
}

func (s *slab) get(i uint32) *Open {
	if i/slabChunk >= uint32(len(s.chunks)) {
		return nil
	}
	chunk := s.chunks[i/slabChunk].Load()
	if chunk == nil {
		return nil
	}
	return chunk[i%slabChunk].Load()
}

// find returns the Open of a stateid that this State gave to the client of a
// session, whatever its seqid.
func (s *State) find(session *Session, id *nfs4.StateID) *Open {
	if !s.ours(binary.BigEndian.Uint32(id.Other[:])) {
		return nil
	}
	o := s.slab.get(binary.BigEndian.Uint32(id.Other[4:]))
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
