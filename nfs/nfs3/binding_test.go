package nfs3

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
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

// items are the captured messages with an item, their procedures, and the
// number of bytes before the item.
var items = []struct {
	file    string
	proc    uint32
	result  bool
	at, len int
}{
	{"write-args", ProcWrite, false, 44, 1 << 18},
	{"symlink-args", ProcSymlink, false, 52, 9},
	{"read-res", ProcRead, true, 104, 6},
	{"readlink-res", ProcReadLink, true, 12, 5},
}

// readCapture returns a captured message with its item inline.
func readCapture(t testing.TB, file string) []byte {
	t.Helper()
	for _, tt := range golden {
		if tt.file == file {
			wire := wiretest.Hex(t, "testdata/"+file+".hex")
			if tt.inline {
				return wire
			}
			return xdr.AppendFixed(wire, tt.item)
		}
	}
	t.Fatalf("no %s", file)
	return nil
}

// TestBindingItems: R8267-4-1, R8267-4-2. It checks that an item is found only
// in messages of its own procedure, and only if it is complete.
func TestBindingItems(t *testing.T) {
	var b Binding
	for _, tt := range items {
		t.Run(tt.file, func(t *testing.T) {
			wire := readCapture(t, tt.file)
			for proc := range NumProc + 1 {
				arg, argLen := b.ArgItem(proc, wire)
				result, resultLen := b.ResultItem(proc, wire)
				at, n := arg, argLen
				if tt.result {
					at, n = result, resultLen
				}
				eligibleArg, eligibleResult := DDPEligible(proc)
				switch {
				case proc == tt.proc:
					assert.Equal(t, tt.at, at)
					assert.Equal(t, tt.len, n)
				case !eligibleArg:
					assert.Zero(t, argLen, ProcName(proc))
				case !eligibleResult:
					assert.Zero(t, resultLen, ProcName(proc))
				}
			}
			if tt.result {
				for cut := range wire {
					_, n := b.ResultItem(tt.proc, wire[:cut])
					assert.Zero(t, n, "cut after %d bytes", cut)
				}
				_, n := b.ResultItem(tt.proc, append(wire, 0, 0, 0, 0))
				assert.Zero(t, n, "with more behind it")
				return
			}
			at, n := b.ArgItem(tt.proc, wire[:tt.at])
			assert.Equal(t, tt.at, at, "the item is elsewhere")
			assert.Equal(t, tt.len, n)
			for cut := range tt.at {
				_, n := b.ArgItem(tt.proc, wire[:cut])
				assert.Zero(t, n, "cut after %d bytes", cut)
			}
		})
	}
	for _, proc := range []uint32{ProcRead, ProcReadLink} { // R8267-6.4.1-5: the arm without data
		_, n := b.ResultItem(proc, (&ReadRes{Status: ErrStale}).AppendTo(nil))
		assert.Zero(t, n)
	}
	_, n := b.ResultItem(ProcRead, (&ReadRes{EOF: true}).AppendTo(nil))
	assert.Zero(t, n, "no read")
	_, n = b.ArgItem(ProcWrite, append((&WriteArgs{}).AppendTo(nil)[:20], 0xff, 0xff, 0xff, 0xff))
	assert.Zero(t, n)
	prog, vers := b.Program()
	assert.Equal(t, []uint32{Program, Version}, []uint32{prog, vers})
}

// TestBindingMaxResults: R8267-3-2. The bound follows from the arguments.
func TestBindingMaxResults(t *testing.T) {
	fh := make(FH, 8)
	args := map[uint32]message{
		ProcRead:        &ReadArgs{File: fh, Count: 5001},
		ProcReadLink:    &HandleArgs{Object: fh},
		ProcReadDir:     &ReadDirArgs{Dir: fh, Count: 5001},
		ProcReadDirPlus: &ReadDirPlusArgs{Dir: fh, DirCount: 7, MaxCount: 5001},
	}
	items := map[uint32]int{ProcRead: 5001, ProcReadLink: MaxPath}
	for proc := range NumProc + 1 {
		var wire []byte
		count := uint32(5001)
		if m := args[proc]; m != nil {
			wire = m.AppendTo(nil)
		}
		if proc == ProcReadLink {
			count = MaxPath
		}
		rest, item := Binding{}.MaxResults(proc, wire)
		assert.Equal(t, items[proc], item, ProcName(proc))
		assert.Equal(t, MaxResult(proc, count), rest+item+xdr.Pad(item), ProcName(proc))
	}
}

// FuzzBinding checks that the binding finds the same item as the codec.
func FuzzBinding(f *testing.F) {
	for _, tt := range items {
		f.Add(tt.proc, readCapture(f, tt.file))
	}
	for _, tt := range golden {
		for _, proc := range []uint32{ProcWrite, ProcSymlink, ProcRead, ProcReadLink, ProcReadDir, ProcReadDirPlus} {
			f.Add(proc, wiretest.Hex(f, "testdata/"+tt.file+".hex"))
		}
	}
	codec := map[uint32]message{
		ProcWrite: new(WriteArgs), ProcSymlink: new(SymlinkArgs), ProcRead: new(ReadRes), ProcReadLink: new(ReadLinkRes),
	}
	f.Fuzz(func(t *testing.T, proc uint32, wire []byte) {
		var b Binding
		rest, item := b.MaxResults(proc, wire)
		assert.False(t, rest < 0 || item < 0)
		want, at := []byte{}, 0
		if m := codec[proc]; m != nil {
			m = newMessageLike(m) // Decode does not clear the absent arm's fields
			r := xdr.NewReader(wire)
			if m.Decode(&r); r.Done() == nil {
				want = itemOf(m)
				at = len(wire) - len(want) - xdr.Pad(len(want))
			}
		}
		start, n := b.ResultItem(proc, wire)
		if arg, result := DDPEligible(proc); arg && len(want) > 0 {
			start, n = b.ArgItem(proc, wire)
		} else if !result {
			assert.Zero(t, n)
			return
		}
		assert.Equal(t, len(want), n)
		if n > 0 {
			assert.Equal(t, at, start)
		}
	})
}

// longestResults returns the longest results of each procedure. An item's length is
// count.
func longestResults(count int) map[uint32]message {
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

// TestMaxResult: R8267-3-2, R8267-4.1-1. TestListSizes checks the bound of
// READDIR and READDIRPLUS.
func TestMaxResult(t *testing.T) {
	for _, count := range []int{0, 1, 4, 5, 1 << 20} {
		for proc, m := range longestResults(count) {
			wire := xdr.AppendFixed(m.AppendTo(nil), itemOf(m))
			assert.Equal(t, len(wire), MaxResult(proc, uint32(count)), ProcName(proc))
		}
	}
	fail := DirRes{Status: ErrTooSmall, DirAttr: PostOpAttr{OK: true}}
	assert.Len(t, fail.AppendTo(nil), MaxResult(ProcReadDirPlus, 0))
	assert.Equal(t, 4+8192, MaxResult(ProcReadDirPlus, 8192))
	assert.Zero(t, MaxResult(ProcNull, 8192))
}
