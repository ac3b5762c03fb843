package nfs3

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// newMessageLike returns an empty message with m's type.
func newMessageLike(m message) message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(message)
}

// itemOf returns the data item of m, or nil.
func itemOf(m message) []byte {
	switch m := m.(type) {
	case *ReadLinkRes:
		return m.Path
	case *ReadRes:
		return m.Data
	case *WriteArgs:
		return m.Data
	case *SymlinkArgs:
		return m.Path
	}
	return nil
}

func TestValues(t *testing.T) {
	tests := []struct {
		name string
		msg  message
		wire string
		want error
	}{
		{"handle of 65 bytes", new(HandleArgs), "00000041", xdr.ErrLong},
		{"time_how 3", new(SetAttrArgs), "00000000 00000000 00000000 00000000 00000000 00000003", xdr.ErrValue},
		{"boolean 2", new(SetAttrArgs), "00000000 00000002", xdr.ErrValue},
		{"createmode3 3", new(CreateArgs), "00000000 00000000 00000003", xdr.ErrValue},
		{"stable_how 3", new(WriteArgs), "00000000 0000000000000000 00000000 00000003 00000000", xdr.ErrValue},
		{"count differs from the data", new(WriteArgs), "00000000 0000000000000000 00000005 00000000 00000004 61626364", xdr.ErrValue},
		{"count of the reply differs from the data", new(ReadRes), "00000000 00000000 00000003 00000000 00000004 61626364", xdr.ErrValue},
		{"ftype3 0", new(GetAttrRes), "00000000 00000000" + zeroString(80), xdr.ErrValue},
		{"ftype3 8", new(GetAttrRes), "00000000 00000008" + zeroString(80), xdr.ErrValue},
		{"name longer than the message", new(DirOpArgs), "00000000 ffffffff 61", xdr.ErrLong},
		{"bytes behind", new(HandleArgs), "00000000 00000000", xdr.ErrTrailing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := xdr.NewReader(wiretest.Bytes(t, tt.wire))
			tt.msg.Decode(&r)
			assert.ErrorIs(t, r.Done(), tt.want)
		})
	}
}

func zeroString(n int) string {
	b := make([]byte, 2*n)
	for i := range b {
		b[i] = '0'
	}
	return string(b)
}

// TestLongName checks that names above MaxName are decoded, for
// NFS3ERR_NAMETOOLONG.
func TestLongName(t *testing.T) {
	want := DirOpArgs{Dir: FH("dh"), Name: make([]byte, 100_000)}
	r := xdr.NewReader(want.AppendTo(nil))
	var got DirOpArgs
	got.Decode(&r)
	require.NoError(t, r.Done())
	assert.Equal(t, want, got)
}

func TestNames(t *testing.T) {
	assert.Equal(t, "NFS3ERR_NOT_SYNC", ErrNotSync.String())
	assert.Equal(t, "nfsstat3(9)", Status(9).String())
	assert.Equal(t, "COMMIT", ProcName(21))
	assert.Equal(t, "undefined", ProcName(22))
	assert.EqualValues(t, 22, NumProc)
}

// TestAllocs checks that no message allocates more than its first buffer.
func TestAllocs(t *testing.T) {
	for _, tt := range golden {
		wire := wiretest.Hex(t, "testdata/"+tt.file+".hex")
		got := newMessageLike(tt.want)
		var r xdr.Reader
		buf := make([]byte, 0, 1024)
		assert.Zero(t, testing.AllocsPerRun(10, func() {
			r = newItemReader(wire, tt.item, tt.inline)
			got.Decode(&r)
			buf = got.AppendTo(buf[:0])
		}), tt.file)
	}
}

// arguments and results of each procedure, in its order.
var messages = [NumProc][2]message{
	ProcGetAttr:     {new(HandleArgs), new(GetAttrRes)},
	ProcSetAttr:     {new(SetAttrArgs), new(WccRes)},
	ProcLookup:      {new(DirOpArgs), new(LookupRes)},
	ProcAccess:      {new(AccessArgs), new(AccessRes)},
	ProcReadLink:    {new(HandleArgs), new(ReadLinkRes)},
	ProcRead:        {new(ReadArgs), new(ReadRes)},
	ProcWrite:       {new(WriteArgs), new(WriteRes)},
	ProcCreate:      {new(CreateArgs), new(MakeRes)},
	ProcMkdir:       {new(MkdirArgs), new(MakeRes)},
	ProcSymlink:     {new(SymlinkArgs), new(MakeRes)},
	ProcMknod:       {new(MknodArgs), new(MakeRes)},
	ProcRemove:      {new(DirOpArgs), new(WccRes)},
	ProcRmdir:       {new(DirOpArgs), new(WccRes)},
	ProcRename:      {new(RenameArgs), new(RenameRes)},
	ProcLink:        {new(LinkArgs), new(LinkRes)},
	ProcReadDir:     {new(ReadDirArgs), new(DirRes)},
	ProcReadDirPlus: {new(ReadDirPlusArgs), new(DirRes)},
	ProcFSStat:      {new(HandleArgs), new(FSStatRes)},
	ProcFSInfo:      {new(HandleArgs), new(FSInfoRes)},
	ProcPathConf:    {new(HandleArgs), new(PathConfRes)},
	ProcCommit:      {new(CommitArgs), new(CommitRes)},
}

// FuzzMessages checks that a decoded message survives encoding and decoding.
func FuzzMessages(f *testing.F) {
	for _, tt := range golden {
		wire := wiretest.Hex(f, "testdata/"+tt.file+".hex")
		for proc, m := range messages {
			for which := range m {
				if m[which] != nil && reflect.TypeOf(m[which]) == reflect.TypeOf(tt.want) {
					f.Add(uint8(proc), which == 1, wire, tt.item[:min(len(tt.item), 8)], !tt.inline && tt.item != nil)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, proc uint8, result bool, wire, item []byte, apart bool) {
		m := messages[int(proc)%len(messages)][0]
		if result {
			m = messages[int(proc)%len(messages)][1]
		}
		if m == nil { // NULL
			return
		}
		first := newMessageLike(m)
		r := xdr.NewReader(wire)
		if apart {
			r.SetItem(len(wire), item)
		}
		first.Decode(&r)
		if r.Err() != nil {
			return
		}
		out := xdr.AppendFixed(first.AppendTo(nil), itemOf(first))
		second := newMessageLike(m)
		r = xdr.NewReader(out)
		second.Decode(&r)
		require.NoError(t, r.Done())
		assert.Equal(t, first, second)
		assert.LessOrEqual(t, len(out), len(wire)+len(item)+xdr.Pad(len(item)), "no bytes from nowhere")
	})
}
