package nfs3

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/xdr"
)

func TestDDPEligible(t *testing.T) {
	args := map[uint32]bool{ProcWrite: true, ProcSymlink: true}
	results := map[uint32]bool{ProcRead: true, ProcReadLink: true}
	for proc := range NumProc + 1 {
		arg, result := DDPEligible(proc)
		assert.Equal(t, args[proc], arg, ProcName(proc))       // R8267-4-1, R8267-4-2
		assert.Equal(t, results[proc], result, ProcName(proc)) // R8267-4-1, R8267-4-2
	}
}

// largest holds, for each procedure, results that nothing can be added to; for
// those with an item it is as long as the count beside it.
func largest(count int) map[uint32]message {
	fh := make(FH, FHSize)
	attr := PostOpAttr{OK: true}
	wcc := WccData{Before: PreOpAttr{OK: true}, After: attr}
	mk := &MakeRes{Object: fh, Attr: attr, Dir: wcc}
	return map[uint32]message{
		ProcGetAttr:  &GetAttrRes{},
		ProcSetAttr:  &WccRes{Wcc: wcc},
		ProcLookup:   &LookupRes{Object: fh, ObjAttr: attr, DirAttr: attr},
		ProcAccess:   &AccessRes{Attr: attr},
		ProcReadLink: &ReadLinkRes{Attr: attr, Path: make([]byte, count)},
		ProcRead:     &ReadRes{Attr: attr, Data: make([]byte, count)},
		ProcWrite:    &WriteRes{Wcc: wcc},
		ProcCreate:   mk,
		ProcMkdir:    mk,
		ProcSymlink:  mk,
		ProcMknod:    mk,
		ProcRemove:   &WccRes{Wcc: wcc},
		ProcRmdir:    &WccRes{Wcc: wcc},
		ProcRename:   &RenameRes{FromDir: wcc, ToDir: wcc},
		ProcLink:     &LinkRes{Attr: attr, Dir: wcc},
		ProcFSStat:   &FSStatRes{Attr: attr},
		ProcFSInfo:   &FSInfoRes{Attr: attr},
		ProcPathConf: &PathConfRes{Attr: attr},
		ProcCommit:   &CommitRes{Wcc: wcc},
	}
}

// TestMaxResult: R8267-3-2, R8267-4.1-1. The bound of READDIR and READDIRPLUS
// is held by TestListSizes.
func TestMaxResult(t *testing.T) {
	for _, count := range []int{0, 1, 4, 5, 1 << 20} {
		for proc, m := range largest(count) {
			wire := xdr.AppendFixed(m.AppendTo(nil), itemOf(m))
			assert.Equal(t, len(wire), MaxResult(proc, uint32(count)), ProcName(proc))
		}
	}
	fail := DirRes{Status: ErrTooSmall, DirAttr: PostOpAttr{OK: true}}
	assert.Len(t, fail.AppendTo(nil), MaxResult(ProcReadDirPlus, 0))
	assert.Equal(t, 4+8192, MaxResult(ProcReadDirPlus, 8192))
	assert.Zero(t, MaxResult(ProcNull, 8192))
}
