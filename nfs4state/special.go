package nfs4state

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// specials counts the READs and WRITEs with special stateids that are under
// way, by objects. Objects may share a counter.
type specials [256][denyShift]atomic.Int32

// counters returns the counters of an object's READs and WRITEs.
func (s *State) counters(key []byte) *[denyShift]atomic.Int32 {
	return &s.specials[maphash.Bytes(s.seed, key)%uint64(len(s.specials))]
}

// A SpecialUse is a READ or WRITE with a special stateid. The zero value is
// none.
type SpecialUse struct{ counter *atomic.Int32 }

// BeginSpecial begins a READ or WRITE with a special stateid: until its end, no
// OPEN denies others that access (RFC 8881, Section 9.1.2). If an open denies the
// access already, BeginSpecial fails unless bypass is set. A silent client gives
// way.
func (s *State) BeginSpecial(key []byte, access uint32, bypass bool) (u SpecialUse, ok bool) {
	u = SpecialUse{&s.counters(key)[access>>1]} // ShareRead or ShareWrite
	u.counter.Add(1)
	// An OPEN that denies the access either sees the counter, or is seen here.
	if !bypass && s.Denying() && s.Denied(string(key), access) {
		u.End()
		return SpecialUse{}, false
	}
	return u, true
}

// End ends u.
func (u *SpecialUse) End() {
	if u.counter != nil {
		u.counter.Add(-1)
		u.counter = nil
	}
}

// underWay reports whether READs or WRITEs with special stateids are under way
// that an OPEN would deny. The caller has counted the OPEN in s.denying.
func (s *State) underWay(key string, deny uint32) bool {
	c := s.counters([]byte(key))
	return deny&nfs4.ShareRead != 0 && c[0].Load() > 0 || deny&nfs4.ShareWrite != 0 && c[1].Load() > 0
}
