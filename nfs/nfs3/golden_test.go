package nfs3

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A message holds arguments or results.
type message interface {
	AppendTo(b []byte) []byte
	Decode(r *xdr.Reader)
}

// The file system of the captures' server.
var (
	rootFH = FH{1, 0, 1, 0, 0, 0, 0, 0}
	dirFH  = FH{1, 0, 1, 1, 0, 0, 0, 0, 0x2a, 0x91, 0x06, 0x9b, 3, 0, 0, 0, 0, 0, 0, 0}
	bigFH  = FH{1, 0, 1, 1, 0, 0, 0, 0, 0xf6, 0x0c, 0xa2, 0x14, 5, 0, 0, 0, 0, 0, 0, 0}
	textFH = FH{1, 0, 1, 1, 0, 0, 0, 0, 0xf3, 0x62, 0x70, 0x50, 2, 0, 0, 0, 0, 0, 0, 0}
	linkFH = FH{1, 0, 1, 1, 0, 0, 0, 0, 0xf6, 0x9d, 0x0f, 0x21, 6, 0, 0, 0, 0, 0, 0, 0}
	ethFH  = FH{1, 0, 1, 1, 0, 0, 0, 0, 0x95, 0x43, 0x18, 0xf3, 10, 0, 0, 0, 0, 0, 0, 0}
)

// captureTime returns a time in the captures, all of which are in the seconds after
// 0x6b00d200.
func captureTime(sec, nsec uint32) Time { return Time{Sec: 0x6b00d200 + sec, Nsec: nsec} }

func rootAttr(size uint64, atime, mtime Time) PostOpAttr {
	return PostOpAttr{OK: true, Attr: Attr{
		Type: TypeDir, Mode: 0o1777, Nlink: 3, Size: size, FileID: 1,
		Atime: atime, Mtime: mtime, Ctime: mtime,
	}}
}

func fileAttr(mode uint32, id, size, used uint64, atime, mtime, ctime Time) PostOpAttr {
	return PostOpAttr{OK: true, Attr: Attr{
		Type: TypeReg, Mode: mode, Nlink: 1, Size: size, Used: used, FileID: id,
		Atime: atime, Mtime: mtime, Ctime: ctime,
	}}
}

func attrBefore(size uint64, t Time) PreOpAttr {
	return PreOpAttr{OK: true, Size: size, Mtime: t, Ctime: t}
}

var (
	rootA  = captureTime(0x2b, 561591979) // the root directory's times, one after the other
	rootB  = captureTime(0x2b, 565591979)
	rootC  = captureTime(0x2c, 605592021)
	bigA   = captureTime(0x2c, 645592022)
	bigB   = captureTime(0x2c, 661592023)
	moved  = captureTime(0x2c, 753592026)
	linked = captureTime(0x2c, 757592027)

	verf = uint64(0xa78cb23f_e05fba09)
)

// golden holds arguments and results from captures and from the standard. item
// is the data item; if inline is set, the file contains item too.
var golden = []struct {
	file   string
	want   message
	item   []byte
	inline bool
}{
	{file: "getattr-args", want: &HandleArgs{Object: rootFH}},
	{file: "getattr-res", want: &GetAttrRes{Attr: rootAttr(80, rootA, rootB).Attr}},
	{file: "eth-getattr-res", want: &GetAttrRes{Attr: rootAttr(80, captureTime(0x32, 953592274), captureTime(0x32, 957592275)).Attr}},
	{file: "setattr-args", want: &SetAttrArgs{Object: textFH, Attr: SetAttr{Mode: OptUint32{true, 0o600}}}},
	{file: "eth-setattr-args", want: &SetAttrArgs{Object: ethFH, Attr: SetAttr{Mode: OptUint32{true, 0o600}}}},
	{file: "setattr-guard-args", want: &SetAttrArgs{
		Object: FH("oh"), Attr: SetAttr{Size: OptUint64{true, 4 << 30}}, Check: true, Guard: Time{9, 10},
	}},
	{file: "setattr-res", want: &WccRes{Wcc: WccData{
		Before: attrBefore(6, rootB),
		After:  fileAttr(0o600, 2, 6, 4096, captureTime(0x2c, 633592022), rootB, captureTime(0x2c, 765592027)),
	}}},
	{file: "eth-setattr-res", want: &WccRes{Wcc: WccData{
		Before: attrBefore(6, captureTime(0x32, 957592275)),
		After:  fileAttr(0o600, 10, 6, 4096, captureTime(0x33, 93592280), captureTime(0x32, 957592275), captureTime(0x33, 285592288)),
	}}},
	{file: "lookup-args", want: &DirOpArgs{Dir: rootFH, Name: []byte("big")}},
	{file: "lookup-res", want: &LookupRes{
		Object: bigFH, ObjAttr: fileAttr(0o644, 5, 1<<20, 1<<20, bigA, bigB, bigB), DirAttr: rootAttr(100, rootC, bigA),
	}},
	{file: "lookup-noent-args", want: &DirOpArgs{Dir: rootFH, Name: []byte("big")}},
	{file: "lookup-noent-res", want: &LookupRes{Status: ErrNoEnt, DirAttr: rootAttr(80, rootC, rootB)}},
	{file: "access-args", want: &AccessArgs{
		Object: rootFH, Access: AccessRead | AccessLookup | AccessModify | AccessExtend | AccessDelete,
	}},
	{file: "access-res", want: &AccessRes{Attr: rootAttr(80, rootA, rootB), Access: 0x1f}},
	{file: "readlink-res", want: &ReadLinkRes{Path: []byte("../x\xff")}, item: []byte("../x\xff"), inline: true},
	{file: "read-args", want: &ReadArgs{File: textFH, Count: 4096}},
	{
		file: "read-res", item: []byte("small\n"),
		want: &ReadRes{
			Attr:  fileAttr(0o644, 2, 6, 4096, captureTime(0x2c, 633592022), rootB, rootB),
			Count: 6, EOF: true, Data: []byte("small\n"),
		},
	},
	{
		file: "write-args", item: make([]byte, 1<<18),
		want: &WriteArgs{File: bigFH, Offset: 1 << 18, Stable: Unstable, Data: make([]byte, 1<<18)},
	},
	{file: "write-res", want: &WriteRes{
		Wcc:   WccData{After: fileAttr(0o644, 5, 1<<19, 1<<18, bigA, captureTime(0x2c, 657592023), captureTime(0x2c, 657592023))},
		Count: 1 << 18, Committed: Unstable, Verf: verf,
	}},
	{file: "create-args", want: &CreateArgs{
		Where: DirOpArgs{Dir: rootFH, Name: []byte("big")}, Mode: Unchecked, Attr: SetAttr{Mode: OptUint32{true, 0o644}},
	}},
	{file: "create-exclusive-args", want: &CreateArgs{
		Where: DirOpArgs{Dir: FH("dh"), Name: []byte("f")}, Mode: Exclusive, Verf: 0x0102030405060708,
	}},
	{file: "create-res", want: &MakeRes{
		Object: bigFH, Attr: fileAttr(0o644, 5, 0, 0, bigA, bigA, bigA),
		Dir: WccData{Before: attrBefore(80, rootB), After: rootAttr(100, rootC, bigA)},
	}},
	{file: "mkdir-args", want: &MkdirArgs{
		Where: DirOpArgs{Dir: FH("direc"), Name: []byte("\xff/ ")},
		Attr: SetAttr{
			Mode: OptUint32{true, 0o755}, UID: OptUint32{true, 1000}, GID: OptUint32{true, 100},
			Atime: SetTime{How: SetToServerTime}, Mtime: SetTime{SetToClientTime, Time{7, 999999999}},
		},
	}},
	{
		file: "symlink-args", item: []byte("small.txt"), inline: true,
		want: &SymlinkArgs{
			Where: DirOpArgs{Dir: rootFH, Name: []byte("link")},
			Attr:  SetAttr{Mode: OptUint32{true, 0o777}}, Path: []byte("small.txt"),
		},
	},
	{file: "symlink-res", want: &MakeRes{
		Object: linkFH,
		Attr: PostOpAttr{OK: true, Attr: Attr{
			Type: TypeLnk, Mode: 0o777, Nlink: 1, Size: 9, FileID: 6, Atime: linked, Mtime: linked, Ctime: linked,
		}},
		Dir: WccData{Before: attrBefore(80, moved), After: rootAttr(100, rootC, linked)},
	}},
	{file: "mknod-chr-args", want: &MknodArgs{
		Where: DirOpArgs{Dir: FH("dh"), Name: []byte("null")}, Type: TypeChr,
		Attr: SetAttr{Mode: OptUint32{true, 0o666}}, Spec: SpecData{1, 3},
	}},
	{file: "mknod-fifo-args", want: &MknodArgs{Where: DirOpArgs{Dir: FH("dh"), Name: []byte("f")}, Type: TypeFIFO}},
	{file: "mknod-reg-args", want: &MknodArgs{Where: DirOpArgs{Dir: FH("dh"), Name: []byte("f")}, Type: TypeReg}},
	{file: "remove-args", want: &DirOpArgs{Dir: dirFH, Name: []byte("big2")}},
	{file: "remove-res", want: &WccRes{Wcc: WccData{
		Before: attrBefore(80, moved),
		After: PostOpAttr{OK: true, Attr: Attr{
			Type: TypeDir, Mode: 0o755, Nlink: 3, Size: 60, FileID: 3,
			Atime: rootB, Mtime: captureTime(0x2c, 781592028), Ctime: captureTime(0x2c, 781592028),
		}},
	}}},
	{file: "rename-args", want: &RenameArgs{
		From: DirOpArgs{Dir: rootFH, Name: []byte("big")}, To: DirOpArgs{Dir: dirFH, Name: []byte("big2")},
	}},
	{file: "rename-res", want: &RenameRes{
		FromDir: WccData{Before: attrBefore(100, bigA), After: rootAttr(80, rootC, moved)},
		ToDir: WccData{
			Before: attrBefore(60, captureTime(0x2b, 569591979)),
			After: PostOpAttr{OK: true, Attr: Attr{
				Type: TypeDir, Mode: 0o755, Nlink: 3, Size: 80, FileID: 3, Atime: rootB, Mtime: moved, Ctime: moved,
			}},
		},
	}},
	{file: "link-args", want: &LinkArgs{File: FH("fh"), Link: DirOpArgs{Dir: FH("dh"), Name: []byte("l")}}},
	{file: "link-res", want: &LinkRes{
		Status: ErrMLink,
		Dir:    WccData{Before: PreOpAttr{OK: true, Size: 80, Mtime: Time{1, 2}, Ctime: Time{3, 4}}},
	}},
	{file: "readdir-args", want: &ReadDirArgs{Dir: FH("dh"), Cookie: 7, Verf: 0x1122334455667788, Count: 4096}},
	{file: "readdirplus-args", want: &ReadDirPlusArgs{Dir: rootFH, DirCount: 64 << 10, MaxCount: 64 << 10}},
	{file: "fsstat-args", want: &HandleArgs{Object: rootFH}},
	{file: "fsstat-res", want: &FSStatRes{
		TotalBytes: 1546870784, FreeBytes: 1546866688, AvailBytes: 1546866688,
		TotalFiles: 251769, FreeFiles: 251764, AvailFiles: 251764,
	}},
	{file: "fsinfo-args", want: &HandleArgs{Object: rootFH}},
	{file: "fsinfo-res", want: &FSInfoRes{
		RTMax: 1 << 18, RTPref: 1 << 18, RTMult: 4096, WTMax: 1 << 18, WTPref: 1 << 18, WTMult: 4096, DTPref: 1 << 18,
		MaxFileSize: 1<<63 - 1, TimeDelta: Time{Sec: 1},
		Properties: FSFLink | FSFSymlink | FSFHomogeneous | FSFCanSetTime,
	}},
	{file: "pathconf-args", want: &HandleArgs{Object: rootFH}},
	{file: "pathconf-res", want: &PathConfRes{LinkMax: 255, NameMax: 255, ChownRestricted: true, CasePreserving: true}},
	{file: "commit-args", want: &CommitArgs{File: bigFH}},
	{file: "commit-res", want: &CommitRes{
		Wcc: WccData{After: fileAttr(0o644, 5, 1<<20, 1<<20, bigA, bigB, bigB)}, Verf: verf,
	}},
}

func TestGolden(t *testing.T) {
	for _, tt := range golden {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/"+tt.file+".hex")
			out := tt.want.AppendTo(nil)
			if tt.inline {
				out = xdr.AppendFixed(out, tt.item)
			}
			assert.Equal(t, wire, out)

			got := newMessageLike(tt.want)
			r := newItemReader(wire, tt.item, tt.inline)
			got.Decode(&r)
			require.NoError(t, r.Done())
			assert.Equal(t, tt.want, got)

			for n := range len(wire) {
				r := newItemReader(wire[:n], tt.item, tt.inline)
				newMessageLike(tt.want).Decode(&r)
				assert.Error(t, r.Done(), "cut after %d bytes", n)
			}
		})
	}
}

// TestItemPlace checks the position rule of the data item: R8267-4-1 and
// R8267-4-2. An item at any position except the end belongs to another message.
func TestItemPlace(t *testing.T) {
	for _, tt := range golden {
		wire := wiretest.Hex(t, "testdata/"+tt.file+".hex")
		for pos := 0; pos < len(wire); pos += 4 {
			r := xdr.NewReader(wire)
			r.SetItem(pos, []byte("item"))
			newMessageLike(tt.want).Decode(&r)
			assert.ErrorIs(t, r.Done(), xdr.ErrItem, "%s: item at %d", tt.file, pos)
		}
	}
}

func newItemReader(wire, item []byte, inline bool) xdr.Reader {
	r := xdr.NewReader(wire)
	if item != nil && !inline {
		r.SetItem(len(wire), item)
	}
	return r
}
