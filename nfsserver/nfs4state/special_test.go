package nfs4state

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// TestSpecialsOfOthers lets READs and WRITEs with special stateids of very many
// objects run, for as long as their storage takes: they delay no OPEN of another
// object.
func TestSpecialsOfOthers(t *testing.T) {
	w := newTestState(t)
	s := w.newTestClient("c")
	var uses []SpecialUse
	for i := range 2000 {
		for _, access := range []uint32{nfs4.ShareRead, nfs4.ShareWrite} {
			u, status := w.BeginSpecial(fmt.Append(nil, "other", i), access, false)
			want(t, "BeginSpecial", status, nfs4.OK)
			uses = append(uses, u)
		}
	}
	for i := range 100 {
		want(t, "OPEN", w.openStatus(s, "o", fmt.Sprint("f", i), nfs4.ShareRead, nfs4.ShareBoth), nfs4.OK)
	}
	want(t, "OPEN of an object in use", w.openStatus(s, "o", "other7", nfs4.ShareRead, nfs4.ShareRead), nfs4.ErrDelay)
	for i := range uses {
		uses[i].End()
		uses[i].End() // has no effect
	}
	want(t, "OPEN after the use", w.openStatus(s, "o", "other7", nfs4.ShareRead, nfs4.ShareBoth), nfs4.OK)
	for i := range w.specials {
		want(t, "objects in use", len(w.specials[i].uses), 0)
	}
	want(t, "allocations", testing.AllocsPerRun(100, func() {
		u, _ := w.BeginSpecial([]byte("f"), nfs4.ShareRead, true)
		u.End()
	}), 0)
}
