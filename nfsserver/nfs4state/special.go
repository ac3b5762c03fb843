package nfs4state

import (
	"hash/maphash"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// specials counts the READs and WRITEs with special stateids in flight, by object.
// A 64-bit hash with a secret seed represents an object: a long READ of another
// object must not delay an OPEN.
type specials [64]struct {
	mu   checkedMutex[leafRank]
	uses map[uint64][denyShift]int32
}

// A SpecialUse is a READ or WRITE with a special stateid. The zero value means
// none.
type SpecialUse struct {
	state *State
	key   uint64
	kind  uint32 // ShareRead or ShareWrite, as an index
}

// BeginSpecial begins a READ or WRITE with a special stateid: until its end, no
// OPEN denies others that access (RFC 8881, Section 9.1.2). If an open denies the
// access already, BeginSpecial fails as Denied does, unless bypass is set.
func (s *State) BeginSpecial(key []byte, access uint32, bypass bool) (SpecialUse, nfs4.Status) {
	u := SpecialUse{s, maphash.Bytes(s.seed, key), access >> 1}
	u.addUses(1)
	// An OPEN that denies the access either sees the counter, or is found here.
	if !bypass && s.HasDenyModes() {
		if status := s.Denied(string(key), access); status != nfs4.OK {
			u.End()
			return SpecialUse{}, status
		}
	}
	return u, nfs4.OK
}

// addUses adds n to the counter.
func (u *SpecialUse) addUses(n int32) {
	part := &u.state.specials[u.key%uint64(len(u.state.specials))]
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.uses == nil {
		part.uses = make(map[uint64][denyShift]int32)
	}
	uses := part.uses[u.key]
	if uses[u.kind] += n; uses == [denyShift]int32{} {
		delete(part.uses, u.key)
		return
	}
	part.uses[u.key] = uses
}

// End ends u.
func (u *SpecialUse) End() {
	if u.state != nil {
		u.addUses(-1)
		u.state = nil
	}
}

// hasSpecialUse reports whether READs or WRITEs with special stateids are in flight
// that an OPEN would deny. The caller has counted the OPEN in s.denyingOpens.
func (s *State) hasSpecialUse(key string, deny uint32) bool {
	hash := maphash.String(s.seed, key)
	part := &s.specials[hash%uint64(len(s.specials))]
	part.mu.Lock()
	uses := part.uses[hash]
	part.mu.Unlock()
	return deny&nfs4.ShareRead != 0 && uses[0] > 0 || deny&nfs4.ShareWrite != 0 && uses[1] > 0
}
