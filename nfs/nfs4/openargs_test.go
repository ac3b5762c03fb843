package nfs4

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestOpenExtensionForms compares the extensions of OPEN and of delegations with the XDR in RFC 9754,
// field by field, and rejects each form cut at any length.
//
// R9754-3.1-1, R9754-5.2-1, R9754-5.2-2.
func TestOpenExtensionForms(t *testing.T) {
	id := StateID{SeqID: 1, Other: [OtherSize]byte{0xaa, 11: 0xbb}}
	everyone := ACE{Who: []byte("A@")}
	const (
		zeroID = "00000000 000000000000000000000000"
		dirty  = "00000000 0000000000000000 0000000000000000" // cinfo
		ace    = "00000000 00000000 00000000 00000002 41400000"
	)
	times := Attrs{
		Mask:            BitmapOf(AttrTimeDelegAccess, AttrTimeDelegModify),
		TimeDelegAccess: Time{Sec: 0x65000000, Nsec: 1}, TimeDelegModify: Time{Sec: -1, Nsec: 999_999_999},
	}
	for _, tt := range []struct {
		name   string
		op     Op
		result int
		m      Message
		wire   string
	}{
		{
			"open_arguments", OpGetAttr, 1,
			&GetAttrRes{Attrs: Attrs{Mask: BitmapOf(AttrOpenArguments), OpenArguments: OpenArguments{
				ShareAccess:     BitmapOf(OpenArgRead, OpenArgWrite, OpenArgBoth),
				ShareDeny:       BitmapOf(OpenArgNone, OpenArgRead, OpenArgWrite, OpenArgBoth),
				ShareAccessWant: BitmapOf(OpenArgWantAnyDeleg, OpenArgWantNoDeleg, OpenArgWantCancel, OpenArgWantSignalAvail, OpenArgWantPushDeleg, OpenArgWantDelegTimestamps, OpenArgWantOpenXorDelegation),
				OpenClaim:       BitmapOf(OpenArg(ClaimNull), OpenArg(ClaimPrevious), OpenArg(ClaimDelegateCur), OpenArg(ClaimDelegatePrev), OpenArg(ClaimFH), OpenArg(ClaimDelegCurFH), OpenArg(ClaimDelegPrevFH)),
				CreateMode:      BitmapOf(OpenArg(Unchecked), OpenArg(Guarded), OpenArg(Exclusive), OpenArg(Exclusive1)),
			}}},
			"00000009 00000000 00000003 00000000 00000000 00400000 00000028" + // attribute 86
				"00000001 0000000e 00000001 0000000f 00000001 00360038 00000001 0000007f 00000001 0000000f",
		},
		{
			"no arguments", OpGetAttr, 1, &GetAttrRes{Attrs: Attrs{Mask: BitmapOf(AttrOpenArguments)}},
			"00000009 00000000 00000003 00000000 00000000 00400000 00000014 00000000 00000000 00000000 00000000 00000000",
		},
		{
			"the delegation alone", OpOpen, 1,
			&OpenRes{Flags: OpenNoOpenStateID, Delegation: OpenDelegation{Type: DelegateRead, StateID: id, Permissions: everyone}},
			"00000012 00000000" + zeroID + dirty + "00000010 00000000" + // OPEN4_RESULT_NO_OPEN_STATEID
				"00000001 00000001 aa00000000000000000000bb 00000000" + ace,
		},
		{
			"read attribute delegation", OpOpen, 1,
			&OpenRes{Delegation: OpenDelegation{Type: DelegateReadAttrs, StateID: id, Permissions: everyone}},
			"00000012 00000000" + zeroID + dirty + "00000000 00000000" +
				"00000004 00000001 aa00000000000000000000bb 00000000" + ace,
		},
		{
			"write attribute delegation", OpOpen, 1,
			&OpenRes{Delegation: OpenDelegation{Type: DelegateWriteAttrs, StateID: id, Recall: true, Limit: SpaceLimit{Size: 5}, Permissions: everyone}},
			"00000012 00000000" + zeroID + dirty + "00000000 00000000" +
				"00000005 00000001 aa00000000000000000000bb 00000001 00000001 0000000000000005" + ace,
		},
		{
			"reclaim of an attribute delegation", OpOpen, 0,
			&OpenArgs{ShareAccess: 0x300003, Owner: StateOwner{Owner: []byte{}}, How: NoCreate, Claim: ClaimPrevious, Delegation: DelegateWriteAttrs},
			"00000012 00000000 00300003 00000000 0000000000000000 00000000 00000000 00000001 00000005",
		},
		{
			"delegated times", OpSetAttr, 0, &SetAttrArgs{StateID: id, Attrs: times},
			"00000022 00000001 aa00000000000000000000bb 00000003 00000000 00000000 00300000 00000018" + // 84, 85
				"0000000065000000 00000001 ffffffffffffffff 3b9ac9ff",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wire := wiretest.Bytes(t, tt.wire)
			assert.Equal(t, wire, AppendOp(nil, tt.op, tt.m))
			r := xdr.NewReader(wire[4:])
			got := forms[tt.op][tt.result]()
			got.Decode(&r)
			require.NoError(t, r.Done())
			assert.Equal(t, tt.m, got)
			for n := range wire[4:] {
				r := xdr.NewReader(wire[4 : 4+n])
				got.Decode(&r)
				assert.Error(t, r.Err(), n)
			}
		})
	}
	assert.Equal(t, []uint32{1 << OpenArgWantDelegTimestamps, 1 << OpenArgWantOpenXorDelegation},
		[]uint32{WantDelegTimestamps, WantOpenXorDelegation}, "share_access has the flag at the attribute's number")
	assert.Equal(t, "offline", AttrOffline.String())
}

// TestMinor2Attributes compares the attributes that NFSv4.2 adds with the XDR in RFC 7863. space_freed
// and sec_label are not supported: a list with them keeps its mask.
//
// R7862-12.1-1, R7862-12.2.3-1.
func TestMinor2Attributes(t *testing.T) {
	known := Attrs{Mask: BitmapOf(AttrCloneBlkSize, AttrChangeAttrType), CloneBlkSize: 4096, ChangeAttrType: ChangeTypeTimeMetadata}
	wire := wiretest.Bytes(t, "00000003 00000000 00000000 0000a000 00000008 00001000 00000003") // 77, 79
	assert.Equal(t, wire, known.AppendTo(nil))
	r := xdr.NewReader(wire)
	var got Attrs
	got.Decode(&r)
	require.NoError(t, r.Done())
	assert.Equal(t, known, got)

	r = xdr.NewReader(wiretest.Bytes(t, "00000003 00000000 00000000 0001e000 00000028"+ // 77 to 80
		"00001000 0000000000000000 0000000000000005 00000003 00000001 00000002 00000002 6c620000"))
	got.Decode(&r)
	require.NoError(t, r.Done())
	assert.Equal(t, Attrs{Mask: BitmapOf(AttrCloneBlkSize, AttrSpaceFreed, AttrChangeAttrType, AttrSecLabel)}, got)

	for want, value := range []uint32{
		ChangeTypeMonotonicIncr, ChangeTypeVersionCounter, ChangeTypeVersionCounterNoPNFS, ChangeTypeTimeMetadata, ChangeTypeUndefined,
	} {
		assert.EqualValues(t, want, value)
	}
}
