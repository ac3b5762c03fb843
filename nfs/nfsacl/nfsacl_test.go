package nfsacl

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A message holds arguments or results.
type message interface {
	AppendTo(b []byte) []byte
	Decode(r *xdr.Reader)
}

func newMessageLike(m message) message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(message)
}

var golden = []struct {
	file string
	want message
}{
	{"getacl-args", &GetACLArgs{Object: nfs3.FH{1, 0, 1, 0, 0, 0, 0, 0}, Mask: MaskDefault | MaskDefaultCount}},
	{"getacl-res", &GetACLRes{
		Attr: nfs3.PostOpAttr{OK: true, Attr: nfs3.Attr{
			Type: nfs3.TypeDir, Mode: 0o1777, Nlink: 3, Size: 80, FileID: 1,
			Atime: nfs3.Time{Sec: 0x6b00d22c, Nsec: 605592021},
			Mtime: nfs3.Time{Sec: 0x6b00d22b, Nsec: 565591979},
			Ctime: nfs3.Time{Sec: 0x6b00d22b, Nsec: 565591979},
		}},
		Mask: MaskDefault | MaskDefaultCount,
	}},
	{"getacl-entries-res", &GetACLRes{
		Attr: nfs3.PostOpAttr{OK: true, Attr: nfs3.Attr{
			Type: nfs3.TypeDir, Mode: 0o775, Nlink: 2, UID: 1000, GID: 100, Size: 4096, Used: 4096, FSID: 7, FileID: 11,
			Atime: nfs3.Time{Sec: 1, Nsec: 2}, Mtime: nfs3.Time{Sec: 3, Nsec: 4}, Ctime: nfs3.Time{Sec: 5, Nsec: 6},
		}},
		Mask:    MaskAll,
		Access:  ACL{{UserObj, 0, 7}, {User, 2000, 6}, {GroupObj, 0, 5}, {Mask, 0, 7}, {Other, 0, 5}},
		Default: ACL{{UserObj, 0, 7}, {GroupObj, 0, 5}, {Other, 0, 0}},
	}},
	{"getacl-fail-res", &GetACLRes{Status: nfs3.ErrStale}},
	{"setacl-args", &SetACLArgs{
		Object: nfs3.FH{
			0x02, 0x57, 0xd1, 0xf0, 0xd2, 0x01, 0x00, 0x00, 0x00, 0x01, 0x49, 0xcf, 0x5c, 0x26, 0xe6, 0x5b, 0x21,
			0x00, 0x00, 0x00, 0x00, 0x00, 0x43, 0x3f, 0x16, 0xb9, 0xd4, 0xa8, 0x52, 0x49, 0x05, 0xd1, 0xc8, 0x76,
		},
		Mask: MaskAccess | MaskDefault,
		Access: ACL{
			{UserObj, 0, 7}, {User, 1100, 4}, {GroupObj, 0, 5}, {Group, 2000, 4}, {Mask, 0, 5}, {Other, 0, 0},
		},
	}},
	{"setacl-res", &SetACLRes{Status: nfs3.ErrNotSupp}},
}

func mustDecode(t testing.TB, wire []byte, m message) {
	t.Helper()
	r := xdr.NewReader(wire)
	m.Decode(&r)
	require.NoError(t, r.Done())
}

func TestGolden(t *testing.T) {
	for _, tt := range golden {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/"+tt.file+".hex")
			assert.Equal(t, wire, tt.want.AppendTo(nil))
			got := newMessageLike(tt.want)
			mustDecode(t, wire, got)
			assert.Equal(t, tt.want, got)
			for n := range wire {
				r := xdr.NewReader(wire[:n])
				newMessageLike(tt.want).Decode(&r)
				assert.ErrorIs(t, r.Err(), xdr.ErrShort, "cut after %d bytes", n)
			}
		})
	}
}

// TestCount checks that a count alone has no entries, and that an unwanted list
// is empty.
func TestCount(t *testing.T) {
	wire := wiretest.Hex(t, "testdata/getacl-count-res.hex")
	list := ACL{{UserObj, 0, 6}, {GroupObj, 0, 4}, {Other, 0, 4}}
	s := GetACLRes{Mask: MaskAccessCount, Access: list, Default: list}
	assert.Equal(t, wire, s.AppendTo(nil))
	var got GetACLRes
	mustDecode(t, wire, &got)
	assert.Equal(t, GetACLRes{Mask: MaskAccessCount}, got)
}

// TestPOSIX checks lists in any order, with meaningless ids and bits, and with
// a mask that is present only because the program requires four entries.
func TestPOSIX(t *testing.T) {
	for _, tt := range []struct {
		name, wire string
		want       ACL
	}{
		{"made up mask", "4 4 20.0.4 10.9.6 4.64.6 1.3e8.7", ACL{{UserObj, 0, 7}, {GroupObj, 0, 6}, {Other, 0, 4}}},
		{"non-empty mask", "4 4 1.0.7 4.0.6 10.0.4 20.0.4", ACL{{UserObj, 0, 7}, {GroupObj, 0, 6}, {Mask, 0, 4}, {Other, 0, 4}}},
		{"mask of users", "5 5 1.0.7 2.7.7 4.0.6 10.0.6 20.0.4", ACL{{UserObj, 0, 7}, {User, 7, 7}, {GroupObj, 0, 6}, {Mask, 0, 6}, {Other, 0, 4}}},
		{"no mask", "3 3 1.0.7 4.0.6 20.0.4", ACL{{UserObj, 0, 7}, {GroupObj, 0, 6}, {Other, 0, 4}}},
		{"bits of the mask", "5 5 1.0.7 2.7.7 4.0.6 10.0.ffffffff 20.0.4", ACL{{UserObj, 0, 7}, {User, 7, 7}, {GroupObj, 0, 6}, {Mask, 0, 7}, {Other, 0, 4}}},
		{"ids in order", "6 6 1.0.7 2.9.1 2.ffffffff.2 2.3.3 10.0.7 20.0.4", ACL{{UserObj, 0, 7}, {User, 3, 3}, {User, 9, 1}, {User, 0xffffffff, 2}, {Mask, 0, 7}, {Other, 0, 4}}},
		{"default", "3 3 1001.0.7 1004.0.6 1020.0.4", ACL{{UserObj, 0, 7}, {GroupObj, 0, 6}, {Other, 0, 4}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got ACL
			r := xdr.NewReader(parseWords(t, tt.wire))
			got.decodeList(&r, true)
			require.NoError(t, r.Done())
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name, wire string
		want       error
	}{
		{"too many entries", "401 401", errEntries},
		{"more entries than the count", "1 2 1.0.7 2.0.7", errEntries},
		{"fewer entries than the count", "2 1 1.0.7", errEntries},
		{"a missing array", "400 400", xdr.ErrShort},
		{"an unknown tag", "1 1 40.0.7", xdr.ErrValue},
		{"two tags", "1 1 3.0.7", xdr.ErrValue},
		{"rights", "1 1 1.0.8", xdr.ErrValue},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got ACL
			r := xdr.NewReader(parseWords(t, tt.wire))
			got.decodeList(&r, true)
			assert.ErrorIs(t, r.Err(), tt.want)
			assert.Nil(t, got)
		})
	}
}

// parseWords parses 32-bit hexadecimal numbers, separated by blanks and dots.
func parseWords(t *testing.T, text string) (b []byte) {
	t.Helper()
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '.' }) {
		b = append(b, wiretest.Bytes(t, "00000000"[len(w):]+w)...)
	}
	return b
}

func TestProgram(t *testing.T) {
	assert.Equal(t, "SETACL", ProcName(ProcSetACL))
	assert.Equal(t, "undefined", ProcName(NumProc))
	assert.EqualValues(t, 3, NumProc)
}

// TestMaxResult checks the maximum length of each procedure's results.
func TestMaxResult(t *testing.T) {
	long := make(ACL, MaxEntries)
	for i := range long {
		long[i] = Entry{Tag: User, ID: uint32(i)}
	}
	s := GetACLRes{Attr: nfs3.PostOpAttr{OK: true}, Mask: MaskAll, Access: long, Default: long}
	assert.Len(t, s.AppendTo(nil), MaxResult(ProcGetACL))
	assert.Len(t, (&SetACLRes{Attr: nfs3.PostOpAttr{OK: true}}).AppendTo(nil), MaxResult(ProcSetACL))
	assert.Zero(t, MaxResult(ProcNull))
}

// FuzzMessages checks that a decoded message survives encoding and decoding.
func FuzzMessages(f *testing.F) {
	for i, tt := range golden {
		f.Add(uint8(i), wiretest.Hex(f, "testdata/"+tt.file+".hex"))
	}
	f.Fuzz(func(t *testing.T, which uint8, wire []byte) {
		m := golden[int(which)%len(golden)].want
		first, second := newMessageLike(m), newMessageLike(m)
		r := xdr.NewReader(wire)
		if first.Decode(&r); r.Err() != nil {
			return
		}
		mustDecode(t, first.AppendTo(nil), second)
		assert.Equal(t, first, second)
	})
}
