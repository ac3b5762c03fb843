package nfs4

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestValues checks the errors of messages that no client may send: R8881-3.1-1,
// R8881-3.3.7-1.
//
// R8881-15.1.1.1-1, R8881-18.34.3-2, R8881-18.45.3-1, R7862-4.7-1.
func TestValues(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("00", n) }
	tests := []struct {
		name string
		msg  Message
		wire string
		want error
	}{
		{"handle of 129 bytes", new(HandleArgs), "00000081", xdr.ErrLong},
		{"bitmap of 65 words", new(GetAttrArgs), "00000041", xdr.ErrLong},
		{"bitmap that ends early", new(GetAttrArgs), "00000002 00000000", xdr.ErrShort},
		{"stable_how4 3", new(WriteArgs), zeros(16) + zeros(8) + "00000003 00000000", xdr.ErrValue},
		{"attribute list too long for its mask", new(VerifyArgs), "00000001 00000010 0000000c" + zeros(12), xdr.ErrValue},
		{"attribute list too short", new(VerifyArgs), "00000001 00000010 00000004 00000000", xdr.ErrValue},
		{"nfs_ftype4 0", new(VerifyArgs), "00000001 00000002 00000004 00000000", xdr.ErrValue},
		{"boolean 2 in an attribute", new(VerifyArgs), "00000001 00000020 00000004 00000002", xdr.ErrValue},
		{"time_how4 2", new(VerifyArgs), "00000002 00000000 00010000 00000004 00000002", xdr.ErrValue},
		{"opentype4 2", new(OpenArgs), zeros(12) + zeros(8) + "00000000 00000002", xdr.ErrValue},
		{"createmode4 4", new(OpenArgs), zeros(12) + zeros(8) + "00000000 00000001 00000004", xdr.ErrValue},
		{"open_claim_type4 7", new(OpenArgs), zeros(12) + zeros(8) + "00000000 00000000 00000007", xdr.ErrValue},
		{"open owner of 1025 bytes", new(OpenArgs), zeros(12) + zeros(8) + "00000401", xdr.ErrLong},
		{"nfs_lock_type4 0", new(LockTArgs), "00000000", xdr.ErrValue},
		{"state_protect_how4 3", new(ExchangeIDArgs), zeros(8) + "00000000 00000000 00000003", xdr.ErrValue},
		{"two nfs_impl_id4", new(ExchangeIDArgs), zeros(8) + "00000000 00000000 00000000 00000002", xdr.ErrValue},
		{"client owner of 1025 bytes", new(ExchangeIDArgs), zeros(8) + "00000401", xdr.ErrLong},
		{"two ca_rdma_ird", new(CreateSessionArgs), zeros(16) + zeros(24) + "00000002", xdr.ErrValue},
		{"17 callback_sec_parms4", new(BackchannelCtlArgs), "00000000 00000011", xdr.ErrLong},
		{"callback flavour 2", new(BackchannelCtlArgs), "00000000 00000001 00000002", xdr.ErrValue},
		{"17 groups", new(BackchannelCtlArgs), "00000000 00000001 00000001 00000000 00000000 00000000 00000000 00000011", xdr.ErrValue},
		{"direction 4", new(BindConnArgs), zeros(16) + "00000004 00000000", xdr.ErrValue},
		{"more stateids than the message holds", new(TestStateIDArgs), "00000002" + zeros(16), xdr.ErrShort},
		{"setxattr_option4 3 (R8276-8.4.2-1)", new(SetXattrArgs), "00000003 00000000 00000000", xdr.ErrValue},
		{"16385 keys", new(ListXattrsRes), "00000000" + zeros(8) + "00004001", xdr.ErrLong},
		{"more keys than the message holds", new(ListXattrsRes), "00000000" + zeros(8) + "00000002 00000000", xdr.ErrShort},
		{"secinfo_style4 2", new(SecInfoNoNameArgs), "00000002", xdr.ErrValue},
		{"netloc_type4 9", new(CopyArgs), zeros(16) + zeros(16) + zeros(24) + zeros(8) + "00000001 00000009", xdr.ErrValue},
		{"17 source servers", new(CopyArgs), zeros(16) + zeros(16) + zeros(24) + zeros(8) + "00000011", xdr.ErrLong},
		{"two copy stateids", new(CopyRes), "00000000 00000002", xdr.ErrValue},
		{"two final statuses", new(OffloadStatusRes), "00000000" + zeros(8) + "00000002", xdr.ErrValue},
		{"more segments than the message holds", new(ReadPlusRes), "00000000 00000000 00000002" + zeros(16), xdr.ErrShort},
		{"more ACEs than the message holds", new(ACL), "00000002" + zeros(16), xdr.ErrShort},
		{"as many ACEs as can be", new(ACL), "ffffffff" + zeros(32), xdr.ErrShort},
		{"open_delegation_type4 6, claimed", new(OpenArgs), zeros(12) + zeros(8) + "00000000 00000000 00000001 00000006", xdr.ErrValue},
		{"open_delegation_type4 6, granted", new(OpenDelegation), "00000006", xdr.ErrValue},
		{"bitmap of 65 words in open_arguments", new(OpenArguments), zeros(12) + "00000041", xdr.ErrLong},
		{"data_content4 2", new(Segment), "00000002", xdr.ErrValue},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := xdr.NewReader(wiretest.Bytes(t, tt.wire))
			tt.msg.Decode(&r)
			assert.ErrorIs(t, r.Err(), tt.want)
		})
	}
}

// TestUnknownAttributes checks (R8881-3.3.7-2) that a list with an attribute that has no field
// keeps its mask, for which the server returns NFS4ERR_ATTRNOTSUPP, and that the reader
// continues after the list.
func TestUnknownAttributes(t *testing.T) {
	for _, mask := range []string{"00000001 00004010", "00000003 00000010 00000000 80000000", "00000004 00000010 00000000 00000000 00000001"} {
		r := xdr.NewReader(wiretest.Bytes(t, mask+"0000000c 00000000 00000000 00000000 00000007"))
		var a Attrs
		a.Decode(&r)
		assert.Equal(t, uint32(7), r.Uint32())
		require.NoError(t, r.Done())
		unknown := a.Mask.Without(Known)
		assert.False(t, unknown.Empty())
		assert.True(t, a.Mask.Has(AttrSize))
	}
}

// TestEveryAttribute gives each field of Attrs a value and reads it back:
// R8881-3.3.7-1, R8881-3.3.3-1.
func TestEveryAttribute(t *testing.T) {
	a := Attrs{
		Mask: Known, SupportedAttrs: Known, Type: TypeLnk, FHExpireType: 1, Change: 2, Size: 3, LinkSupport: true,
		SymlinkSupport: true, NamedAttr: true, FSID: FSID{4, 5}, UniqueHandles: true, LeaseTime: 6, RdattrError: ErrAccess,
		ACL: ACL{{ACEDeny, ACEIdentifierGroup, ACEReadData, []byte("users")}, {Who: []byte(WhoEveryone)}}, ACLSupport: 7, CanSetTime: true, CaseInsensitive: true, CasePreserving: true, ChownRestricted: true,
		FileHandle: FH("handle"), FileID: 8, FilesAvail: 9, FilesFree: 10, FilesTotal: 11,
		FSLocations: FSLocations{
			Root: Pathname{[]byte("a"), []byte("bc")},
			Locations: []FSLocation{{
				Servers: [][]byte{[]byte("server")},
				Root:    Pathname{[]byte("d")},
			}},
		},
		Homogeneous: true, MaxFileSize: 12, MaxLink: 13, MaxName: 14, MaxRead: 15, MaxWrite: 16, Mode: 17, NoTrunc: true,
		NumLinks: 18, Owner: []byte("1000"), OwnerGroup: []byte("users@example"), RawDev: SpecData{19, 20},
		SpaceAvail: 21, SpaceFree: 22, SpaceTotal: 23, SpaceUsed: 24, TimeAccess: Time{-25, 26},
		TimeAccessSet: SetTime{true, Time{27, 28}}, TimeCreate: Time{29, 30}, TimeDelta: Time{31, 32},
		TimeMetadata: Time{33, 34}, TimeModify: Time{35, 36}, TimeModifySet: SetTime{}, MountedOnFileID: 37,
		ModeSetMasked: ModeMasked{38, 39}, SuppattrExclCreat: BitmapOf(AttrMode), FSCharsetCap: 40, CloneBlkSize: 41,
		ChangeAttrType: 42, ModeUmask: ModeUmask{43, 44}, XattrSupport: true,
		TimeDelegAccess: Time{45, 46}, TimeDelegModify: Time{47, 48}, OpenArguments: OpenArguments{
			ShareAccess: BitmapOf(OpenArgRead), ShareDeny: BitmapOf(OpenArgWrite), ShareAccessWant: BitmapOf(OpenArgWantCancel),
			OpenClaim: BitmapOf(OpenArg(ClaimFH)), CreateMode: BitmapOf(OpenArg(Guarded)),
		},
	}
	r := xdr.NewReader(a.AppendTo(nil))
	var got Attrs
	got.Decode(&r)
	require.NoError(t, r.Done())
	assert.Equal(t, a, got)
	v := reflect.ValueOf(got)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		assert.True(t, !v.Field(i).IsZero() || name == "TimeModifySet", name)
	}
}

// TestBitmap checks the sets that clients and servers compare: R8881-3.3.7-1.
func TestBitmap(t *testing.T) {
	m := BitmapOf(AttrSize, AttrMode, AttrXattrSupport)
	assert.True(t, m.Has(AttrMode))
	m.Clear(AttrXattrSupport)
	assert.Equal(t, "\x00\x00\x00\x02\x00\x00\x00\x10\x00\x00\x00\x02", string(m.AppendTo(nil)), "no words of zeros")
	m.Set(AttrType)
	assert.Equal(t, BitmapOf(AttrSize), m.And(BitmapOf(AttrSize, AttrOwner)))
	assert.Equal(t, BitmapOf(AttrType, AttrMode), m.Without(BitmapOf(AttrSize, AttrOwner)))
	ops := BitmapOf(OpSequence, OpIllegal&63)
	assert.True(t, ops.HasOp(OpSequence))
	assert.False(t, ops.HasOp(OpIllegal))
	var empty Bitmap
	assert.True(t, empty.Empty())
	assert.Equal(t, "\x00\x00\x00\x00", string(empty.AppendTo(nil)))
}

// TestOps checks which minor version has an operation (R8881-2.7-3).
func TestOps(t *testing.T) {
	tests := []struct {
		op          Op
		first, last uint32
		ok          bool
	}{
		{0, 0, 0, false},
		{2, 0, 0, false},
		{OpAccess, 0, 2, true},
		{OpOpenConfirm, 0, 0, true},
		{OpRenew, 0, 0, true},
		{OpReleaseLockOwner, 0, 0, true},
		{OpBackchannelCtl, 1, 2, true},
		{OpReclaimComplete, 1, 2, true},
		{OpAllocate, 2, 2, true},
		{OpRemoveXattr, 2, 2, true},
		{76, 0, 0, false},
		{OpIllegal, 0, 0, false},
	}
	for _, tt := range tests {
		first, last, ok := tt.op.Minors()
		assert.Equal(t, tt, struct {
			op          Op
			first, last uint32
			ok          bool
		}{tt.op, first, last, ok})
	}
	assert.Equal(t, "BIND_CONN_TO_SESSION", OpBindConnToSession.String())
	assert.Equal(t, "ILLEGAL", OpIllegal.String())
	assert.Equal(t, "nfs_opnum4(2)", Op(2).String())
	assert.Equal(t, "NFS4ERR_SEQ_FALSE_RETRY", ErrSeqFalseRetry.Error())
	assert.Equal(t, "nfsstat4(19)", Status(19).String())
	assert.Equal(t, "mounted_on_fileid", AttrMountedOnFileID.String())
	assert.Equal(t, "fattr4(90)", AttrID(90).String())
}

// TestPatch checks that a server can set a COMPOUND's status and count after a
// tag of any length.
func TestPatch(t *testing.T) {
	for _, tag := range []string{"", "a", "four", "a long tag"} {
		res := CompoundRes{Tag: []byte(tag)}
		b := res.AppendTo([]byte("before"))
		res.Status, res.N = ErrDelay, 7
		res.Patch(b[len("before"):])
		r := xdr.NewReader(b[len("before"):])
		var got CompoundRes
		got.Decode(&r)
		require.NoError(t, r.Done())
		assert.Equal(t, res, got)
	}
}

// TestDirWriter checks the limit of READDIR's results.
//
// R8881-18.23.3-2.
func TestDirWriter(t *testing.T) {
	e := DirEntry{Cookie: 5, Name: []byte("name")}
	const entry, empty = 4 + 8 + 8 + 4 + 4, VerifierSize + dirTailLen
	for _, tt := range []struct {
		maxCount uint32
		entries  int
		tooSmall bool
	}{{0, 0, true}, {empty - 1, 0, true}, {empty, 0, true}, {empty + entry - 1, 0, true}, {empty + entry, 1, false}, {empty + 2*entry + 1, 2, false}} {
		w := NewDirWriter([]byte("before"), tt.maxCount)
		n := 0
		for n < 3 && w.Add(&e) {
			n++
		}
		assert.Equal(t, tt.entries, n, tt.maxCount)
		assert.Equal(t, tt.tooSmall, w.TooSmall(), tt.maxCount)
		if tt.tooSmall {
			continue
		}
		b := w.Finish(Verifier{1, 2}, true)
		assert.LessOrEqual(t, len(b), len("before")+4+int(tt.maxCount))
		r := xdr.NewReader(b[len("before"):])
		var res ReadDirRes
		res.Decode(&r)
		assert.Equal(t, ReadDirRes{Verf: Verifier{1, 2}}, res)
		dir := DirReader{R: &r}
		for got := (DirEntry{}); dir.Next(&got); n-- {
			assert.Equal(t, e, got)
		}
		require.NoError(t, r.Done())
		assert.Zero(t, n)
		assert.False(t, dir.EOF, "an entry did not fit")
	}
}

// TestAllocs checks that no hot operation allocates.
func TestAllocs(t *testing.T) {
	for _, name := range []string{"sequence-putfh-getattr", "sequence-putfh-access-getattr", "sequence-putfh-write-getattr", "sequence-putfh-commit"} {
		wire := wiretest.Hex(t, "testdata/"+name+".call.hex")
		var head CompoundArgs
		var m struct {
			seq    SequenceArgs
			fh     HandleArgs
			attr   GetAttrArgs
			access AccessArgs
			write  WriteArgs
			commit CommitArgs
		}
		var res GetAttrRes
		res.Attrs.Mask = BitmapOf(AttrType, AttrSize, AttrFSID, AttrOwner, AttrTimeModify, AttrSupportedAttrs)
		buf := make([]byte, 0, 1024)
		assert.Zero(t, testing.AllocsPerRun(10, func() {
			r := xdr.NewReader(wire)
			head.Decode(&r)
			for range head.N {
				switch Op(r.Uint32()) {
				case OpSequence:
					m.seq.Decode(&r)
				case OpPutFH:
					m.fh.Decode(&r)
				case OpGetAttr:
					m.attr.Decode(&r)
				case OpAccess:
					m.access.Decode(&r)
				case OpWrite:
					m.write.Decode(&r)
				case OpCommit:
					m.commit.Decode(&r)
				}
			}
			if r.Done() != nil {
				panic(r.Err())
			}
			buf = res.AppendTo(buf[:0])
		}), name)
	}
}

// FuzzOps checks that a decoded message survives encoding and decoding.
func FuzzOps(f *testing.F) {
	for op := range forms {
		for which := range 2 {
			m := forms[op][which]()
			f.Add(uint32(op), which == 1, m.AppendTo(nil))
		}
	}
	for _, d := range []Delegation{DelegateReadAttrs, DelegateWriteAttrs} {
		f.Add(uint32(OpOpen), true, (&OpenRes{Flags: OpenNoOpenStateID, Delegation: OpenDelegation{Type: d}}).AppendTo(nil))
	}
	f.Add(uint32(OpVerify), false, (&Attrs{Mask: Known, Type: TypeReg}).AppendTo(nil))
	f.Add(uint32(OpGetAttr), true, append(make([]byte, 4), (&Attrs{Mask: Known, Type: TypeReg}).AppendTo(nil)...))
	f.Fuzz(func(t *testing.T, op uint32, result bool, wire []byte) {
		which := 0
		if result {
			which = 1
		}
		make := forms[Op(op)][which]
		if make == nil {
			return
		}
		first, second := make(), make()
		r := xdr.NewReader(wire)
		first.Decode(&r)
		if r.Err() != nil {
			return
		}
		item, _ := itemOf(first)
		out := xdr.AppendFixed(first.AppendTo(nil), item)
		switch m := first.(type) {
		case *ReadDirRes, *TestStateIDArgs, *TestStateIDRes, *ReadPlusRes:
			return // only the beginning of lists
		case *ExchangeIDArgs:
			if m.Protect.How == ProtectSSV {
				return // not kept
			}
		case *ExchangeIDRes:
			if m.Protect.How == ProtectSSV {
				return
			}
		case *CreateSessionArgs, *BackchannelCtlArgs:
			return // SecParms keeps only part
		}
		if hasBeyond(first) {
			return
		}
		r = xdr.NewReader(out)
		second.Decode(&r)
		require.NoError(t, r.Done())
		assert.Equal(t, first, second)
	})
}

// hasBeyond reports whether a bitmap of m has bits that AppendTo drops, or an
// attribute whose value Decode skips.
func hasBeyond(m Message) bool {
	found := false
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			walk(v.Elem())
		case reflect.Struct:
			switch x := v.Addr().Interface().(type) {
			case *Bitmap:
				found = found || x.Beyond
			case *Attrs:
				unknown := x.Mask.Without(Known)
				found = found || !unknown.Empty()
			}
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		}
	}
	walk(reflect.ValueOf(m))
	return found
}
