package nfs4

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestXattrForms compares the extended attribute operations with the XDR in RFC
// 8276, field by field.
//
// R8276-8.1-1, R8276-8.2-1, R8276-8.3-1, R8276-8.4-2, R8276-8.4.2-1,
// R8276-8.4.2-6, R8276-8.4.3-1, R8276-8.5-1.
func TestXattrForms(t *testing.T) {
	for _, tt := range []struct {
		op     Op
		result int
		m      Message
		wire   string
	}{
		{OpGetXattr, 0, &NameArgs{[]byte("key")}, "00000048 00000003 6b657900"},
		{OpGetXattr, 1, &GetXattrRes{Value: []byte("value")}, "00000048 00000000 00000005 76616c75 65000000"},
		{OpGetXattr, 1, &GetXattrRes{Value: []byte{}}, "00000048 00000000 00000000"},
		{OpGetXattr, 1, &GetXattrRes{Status: ErrNoXattr}, "00000048 0000276f"},
		{OpSetXattr, 0, &SetXattrArgs{XattrReplace, []byte("k"), []byte("v")}, "00000049 00000002 00000001 6b000000 00000001 76000000"},
		{OpSetXattr, 0, &SetXattrArgs{XattrCreate, []byte("k"), []byte{}}, "00000049 00000001 00000001 6b000000 00000000"},
		{OpSetXattr, 1, &ChangeRes{Dir: ChangeInfo{true, 1, 2}}, "00000049 00000000 00000001 00000000 00000001 00000000 00000002"},
		{OpSetXattr, 1, &ChangeRes{Status: ErrXattr2Big}, "00000049 00002770"},
		{OpListXattrs, 0, &ListXattrsArgs{1, 2}, "0000004a 00000000 00000001 00000002"},
		{
			OpListXattrs, 1, &ListXattrsRes{Cookie: 5, Names: [][]byte{[]byte("a"), []byte("bcde")}, EOF: true},
			"0000004a 00000000 00000000 00000005 00000002 00000001 61000000 00000004 62636465 00000001",
		},
		{OpListXattrs, 1, &ListXattrsRes{}, "0000004a 00000000 00000000 00000000 00000000 00000000"},
		{OpListXattrs, 1, &ListXattrsRes{Status: ErrTooSmall}, "0000004a 00002715"},
		{OpRemoveXattr, 0, &NameArgs{[]byte("key")}, "0000004b 00000003 6b657900"},
		{OpRemoveXattr, 1, &ChangeRes{Dir: ChangeInfo{false, 1, 2}}, "0000004b 00000000 00000000 00000000 00000001 00000000 00000002"},
	} {
		wire := wiretest.Bytes(t, tt.wire)
		assert.Equal(t, wire, AppendOp(nil, tt.op, tt.m), "%s %d", tt.op, tt.result)
		r := xdr.NewReader(wire[4:])
		got := forms[tt.op][tt.result]()
		got.Decode(&r)
		require.NoError(t, r.Done())
		assert.Equal(t, tt.m, got)
	}
	support := Attrs{Mask: BitmapOf(AttrXattrSupport), XattrSupport: true}
	assert.Equal(t, wiretest.Bytes(t, "00000003 00000000 00000000 00040000 00000004 00000001"), support.AppendTo(nil))
	assert.Equal(t, []uint32{0x40, 0x80, 0x100}, []uint32{AccessXARead, AccessXAWrite, AccessXAList})
	list := ListXattrsRes{Names: [][]byte{[]byte("a"), []byte("bcdef")}}
	assert.Len(t, list.AppendTo(nil), 4+XattrsLen+XattrLen(1)+XattrLen(5))
}
