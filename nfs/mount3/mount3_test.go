package mount3

import (
	"reflect"
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

func newMessageLike(m message) message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(message)
}

var golden = []struct {
	file string
	want message
}{
	{"mnt-args", &PathArgs{Path: []byte("/srv\xff")}},
	{"mnt-res", &MntRes{Handle: []byte{1, 0, 0, 0, 7}, Flavors: []uint32{1, 0}}},
	{"mnt-fail-res", &MntRes{Status: ErrAcces}},
	{"dump-res", &DumpRes{Mounts: []Mount{
		{Host: []byte("10.0.0.1"), Path: []byte("/a")},
		{Host: []byte("::1"), Path: []byte("/b/c")},
	}}},
	{"export-res", &ExportRes{Exports: []Export{
		{Path: []byte("/a"), Groups: [][]byte{[]byte("10.0.0.0/8"), []byte("fc0::")}},
		{Path: []byte("/b")},
	}}},
}

func TestGolden(t *testing.T) {
	for _, tt := range golden {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/"+tt.file+".hex")
			assert.Equal(t, wire, tt.want.AppendTo(nil))
			got := newMessageLike(tt.want)
			r := xdr.NewReader(wire)
			got.Decode(&r)
			require.NoError(t, r.Done())
			assert.Equal(t, tt.want, got)
			for n := range wire {
				r := xdr.NewReader(wire[:n])
				newMessageLike(tt.want).Decode(&r)
				assert.ErrorIs(t, r.Err(), xdr.ErrShort, "cut after %d bytes", n)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name string
		msg  message
		wire string
		want error
	}{
		{"path", new(PathArgs), "00000401", xdr.ErrLong},
		{"handle", new(MntRes), "00000000 00000041", xdr.ErrLong},
		{"more flavours than bytes", new(MntRes), "00000000 00000000 ffffffff 00000001", xdr.ErrShort},
		{"host", new(DumpRes), "00000001 00000100", xdr.ErrLong},
		{"mounted path", new(DumpRes), "00000001 00000000 00000401", xdr.ErrLong},
		{"export", new(ExportRes), "00000001 00000401", xdr.ErrLong},
		{"group", new(ExportRes), "00000001 00000000 00000001 00000100", xdr.ErrLong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := xdr.NewReader(wiretest.Bytes(t, tt.wire))
			tt.msg.Decode(&r)
			assert.ErrorIs(t, r.Err(), tt.want)
		})
	}
}

func TestSizes(t *testing.T) {
	dump, exports := golden[3].want.(*DumpRes), golden[4].want.(*ExportRes)
	n := ListEnd
	for _, m := range dump.Mounts {
		n += m.Size()
	}
	assert.Len(t, dump.AppendTo(nil), n)
	n = ListEnd
	for _, e := range exports.Exports {
		n += e.Size()
	}
	assert.Len(t, exports.AppendTo(nil), n)
}

func TestStatus(t *testing.T) {
	assert.Equal(t, "MNT3ERR_NOTDIR", ErrNotDir.String())
	assert.Equal(t, "mountstat3(7)", Status(7).String())
	assert.EqualValues(t, 6, NumProc)
}

// TestBinding checks that no item of MOUNT is DDP-eligible, and that results
// are unbounded if the protocol sets no bound.
func TestBinding(t *testing.T) {
	var b Binding
	prog, vers := b.Program()
	assert.Equal(t, []uint32{Program, Version}, []uint32{prog, vers})
	want := map[uint32]int{ProcMnt: -1, ProcDump: -1, ProcExport: -1}
	for proc := range NumProc + 1 {
		for _, tt := range golden {
			wire := wiretest.Hex(t, "testdata/"+tt.file+".hex")
			_, arg := b.ArgItem(proc, wire)
			_, result := b.ResultItem(proc, wire)
			rest, item := b.MaxResults(proc, wire)
			assert.Equal(t, []int{0, 0, want[proc], 0}, []int{arg, result, rest, item})
		}
	}
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
		read := r.Offset()
		out := first.AppendTo(nil)
		assert.Len(t, out, read)
		r = xdr.NewReader(out)
		second.Decode(&r)
		require.NoError(t, r.Done())
		assert.Equal(t, first, second)
	})
}
