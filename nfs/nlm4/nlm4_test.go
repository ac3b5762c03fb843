package nlm4

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A message holds arguments or results.
type message interface {
	AppendTo(b []byte, vers uint32) []byte
	Decode(r *xdr.Reader, vers uint32)
}

func newMessageLike(m message) message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(message)
}

var (
	cookie = []byte{0, 0, 0, 9}
	handle = []byte{1, 0, 1, 0, 0, 0, 0, 42}
	wide   = Lock{Caller: []byte("h1.x"), Handle: handle, Owner: []byte("7@h1x"), SVID: 7, Offset: 1<<32 + 2, Length: 3}
	narrow = Lock{Caller: []byte("h1.x"), Handle: handle, Owner: []byte("7@h1x"), SVID: 7, Offset: 1<<31 + 2, Length: 3}
)

var golden = []struct {
	file string
	vers uint32
	want message
}{
	{"lock-args", Version, &LockArgs{Cookie: cookie, Block: true, Lock: wide, Reclaim: true, State: 17}},
	{"lock3-args", Version3, &LockArgs{Cookie: cookie, Exclusive: true, Lock: narrow, State: 17}},
	{"test-args", Version, &TestArgs{Cookie: []byte{1, 2, 3}, Exclusive: true, Lock: wide}},
	{"cancel-args", Version, &CancelArgs{Cookie: []byte{}, Block: true, Exclusive: true, Lock: wide}},
	{"unlock-args", Version, &UnlockArgs{Cookie: cookie, Lock: wide}},
	{"unlock1-args", Version1, &UnlockArgs{Cookie: cookie, Lock: narrow}},
	{"res", Version, &Res{Cookie: cookie, Status: TooBig}},
	{"test-res", Version, &TestRes{Cookie: cookie, Status: Denied, Holder: Holder{Exclusive: true, SVID: -1, Owner: []byte("oh"), Offset: 1 << 32}}},
	{"test3-res", Version3, &TestRes{Cookie: cookie, Status: Denied, Holder: Holder{SVID: 5, Owner: []byte{}, Offset: 16, Length: 32}}},
	{"test-granted-res", Version, &TestRes{Cookie: cookie}},
	{"share-args", Version, &ShareArgs{Cookie: cookie, Share: Share{Caller: []byte("h1"), Handle: handle, Owner: []byte("os1"), Deny: Write, Access: Read | Write}}},
	{"share-res", Version, &ShareRes{Cookie: cookie, Status: DeniedGrace, Sequence: 6}},
	{"notify", Version, &Notify{Name: []byte("h1"), State: 19}},
}

// TestGolden checks each message in both directions (RNLM-XDR-2, RNLM-XDR-3, RNLM-XDR-4, RNLM-XDR-5,
// RNLM-XDR-6, RNLM-6.1.4-2, RNLM-6.1.4-4, RNLM-6.1.4-5, RNLM-6.1.4-6).
func TestGolden(t *testing.T) {
	for _, tt := range golden {
		t.Run(tt.file, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/"+tt.file+".hex")
			assert.Equal(t, wire, tt.want.AppendTo(nil, tt.vers))
			got := newMessageLike(tt.want)
			r := xdr.NewReader(wire)
			got.Decode(&r, tt.vers)
			require.NoError(t, r.Done())
			assert.Equal(t, tt.want, got)
			for n := range wire {
				r := xdr.NewReader(wire[:n])
				newMessageLike(tt.want).Decode(&r, tt.vers)
				assert.ErrorIs(t, r.Err(), xdr.ErrShort, "cut after %d bytes", n)
			}
		})
	}
}

// TestHandle checks that a handle has one length word (RNLM-6.1.4-3).
func TestHandle(t *testing.T) {
	for _, n := range []int{8, 28, 64} {
		h := bytes.Repeat([]byte{0xab}, n)
		wire := append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte(n)}, h...) // no cookie, no caller
		wire = append(wire, make([]byte, 4+4+8+8)...)
		a := UnlockArgs{Cookie: []byte{}, Lock: Lock{Caller: []byte{}, Handle: h, Owner: []byte{}}}
		assert.Equal(t, wire, a.AppendTo(nil, Version))
		var got UnlockArgs
		r := xdr.NewReader(wire)
		got.Decode(&r, Version)
		require.NoError(t, r.Done())
		assert.Equal(t, a, got)
	}
}

// TestAliases checks that Decode copies no bytes of its input.
func TestAliases(t *testing.T) {
	wire := (&UnlockArgs{Cookie: cookie, Lock: wide}).AppendTo(nil, Version)
	var a UnlockArgs
	r := xdr.NewReader(wire)
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		r = xdr.NewReader(wire)
		a.Decode(&r, Version)
	}))
	clear(wire)
	assert.Equal(t, make([]byte, 4), a.Lock.Caller)
}

// TestLimits checks the longest forms of each message, and the forms that are a
// byte longer or have an undefined value (RNLM-XDR-1, RNLM-XDR-6, RNLM-6.1.4-1).
func TestLimits(t *testing.T) {
	obj, name := make([]byte, ObjectLen), make([]byte, CallerLen)
	longest := Lock{Caller: name, Handle: obj, Owner: obj}
	long := append([]byte{}, make([]byte, 1025)...)
	for _, tt := range []struct {
		name string
		vers uint32
		msg  message
		want error
	}{
		{"longest lock", Version, &LockArgs{Cookie: obj, Lock: longest}, nil},
		{"longest holder", Version, &TestRes{Cookie: obj, Status: Denied, Holder: Holder{Owner: obj}}, nil},
		{"longest share", Version, &ShareArgs{Cookie: obj, Share: Share{Caller: name, Handle: obj, Owner: obj, Deny: 3, Access: 3}}, nil},
		{"longest notify", Version, &Notify{Name: make([]byte, NotifyLen)}, nil},
		{"last status", Version, &Res{Status: Failed}, nil},
		{"last status, version 3", Version3, &Res{Status: Deadlock}, nil},
		{"last status, version 1", Version1, &Res{Status: DeniedGrace}, nil},

		{"cookie of LOCK", Version, &LockArgs{Cookie: long}, xdr.ErrLong},
		{"cookie of TEST", Version, &TestArgs{Cookie: long}, xdr.ErrLong},
		{"cookie of CANCEL", Version, &CancelArgs{Cookie: long}, xdr.ErrLong},
		{"cookie of UNLOCK", Version, &UnlockArgs{Cookie: long}, xdr.ErrLong},
		{"cookie of SHARE", Version, &ShareArgs{Cookie: long}, xdr.ErrLong},
		{"cookie of results", Version, &Res{Cookie: long}, xdr.ErrLong},
		{"cookie of a test's results", Version, &TestRes{Cookie: long}, xdr.ErrLong},
		{"cookie of a share's results", Version, &ShareRes{Cookie: long}, xdr.ErrLong},
		{"caller", Version, &UnlockArgs{Lock: Lock{Caller: long}}, xdr.ErrLong},
		{"handle", Version, &UnlockArgs{Lock: Lock{Handle: long}}, xdr.ErrLong},
		{"owner", Version, &UnlockArgs{Lock: Lock{Owner: long}}, xdr.ErrLong},
		{"holder's owner", Version, &TestRes{Status: Denied, Holder: Holder{Owner: long}}, xdr.ErrLong},
		{"caller of SHARE", Version, &ShareArgs{Share: Share{Caller: long}}, xdr.ErrLong},
		{"handle of SHARE", Version, &ShareArgs{Share: Share{Handle: long}}, xdr.ErrLong},
		{"owner of SHARE", Version, &ShareArgs{Share: Share{Owner: long}}, xdr.ErrLong},
		{"deny mode", Version, &ShareArgs{Share: Share{Deny: 4}}, xdr.ErrValue},
		{"access", Version, &ShareArgs{Share: Share{Access: 4}}, xdr.ErrValue},
		{"name", Version, &Notify{Name: make([]byte, NotifyLen+1)}, xdr.ErrLong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := xdr.NewReader(tt.msg.AppendTo(nil, tt.vers))
			newMessageLike(tt.msg).Decode(&r, tt.vers)
			assert.ErrorIs(t, r.Done(), tt.want)
		})
	}
	for vers, undefined := range map[uint32]byte{Version: 10, Version3: 6, Version1: 5} {
		wire := []byte{0, 0, 0, 0, 0, 0, 0, undefined, 0, 0, 0, 0}
		for _, m := range []message{&Res{}, &TestRes{}, &ShareRes{}} {
			r := xdr.NewReader(wire)
			m.Decode(&r, vers)
			assert.ErrorIs(t, r.Err(), xdr.ErrValue, "%T of version %d", m, vers)
		}
	}
}

// TestNarrow checks what replaces a status or a range that an old version
// lacks.
func TestNarrow(t *testing.T) {
	for _, tt := range []struct {
		status       Status
		three, first Status
	}{
		{Granted, Granted, Granted},
		{DeniedGrace, DeniedGrace, DeniedGrace},
		{Deadlock, Deadlock, Denied},
		{ReadOnly, DeniedNoLocks, DeniedNoLocks},
		{Failed, DeniedNoLocks, DeniedNoLocks},
	} {
		for vers, want := range map[uint32]Status{Version: tt.status, Version3: tt.three, Version1: tt.first} {
			var got Res
			r := xdr.NewReader((&Res{Status: tt.status}).AppendTo(nil, vers))
			got.Decode(&r, vers)
			require.NoError(t, r.Done())
			assert.Equal(t, want, got.Status, "%v in version %d", tt.status, vers)
		}
	}
	// A holder follows if the encoded status is Denied.
	res := TestRes{Cookie: []byte{}, Status: Deadlock, Holder: Holder{Owner: []byte{}}}
	var got TestRes
	r := xdr.NewReader(res.AppendTo(nil, Version1))
	got.Decode(&r, Version1)
	require.NoError(t, r.Done())
	assert.Equal(t, Denied, got.Status)

	for _, tt := range []struct{ offset, length, wantOffset, wantLength uint64 }{
		{5, 7, 5, 7},
		{5, 0, 5, 0},
		{max32, 0, max32, 0},
		{5, max32 - 5, 5, max32 - 5},
		{5, max32 - 4, 5, 0},
		{1 << 40, 7, max32, 0},
		{5, 1 << 63, 5, 0},
	} {
		r := xdr.NewReader(appendRange(nil, Version3, tt.offset, tt.length))
		offset, length := readRange(&r, Version3)
		require.NoError(t, r.Done())
		assert.Equal(t, []uint64{tt.wantOffset, tt.wantLength}, []uint64{offset, length}, "%d from %d", tt.length, tt.offset)
	}
}

// TestProgram checks the numbers of procedures (RNLM-6.2-1) and status words
// (RNLM-6.1.4-1).
func TestProgram(t *testing.T) {
	numbers := map[uint32]string{
		0: "NULL", 1: "TEST", 2: "LOCK", 3: "CANCEL", 4: "UNLOCK", 5: "GRANTED", 6: "TEST_MSG", 10: "GRANTED_MSG",
		11: "TEST_RES", 15: "GRANTED_RES", 16: "undefined", 19: "undefined", 20: "SHARE", 21: "UNSHARE", 22: "NM_LOCK",
		23: "FREE_ALL", 24: "undefined", 1 << 31: "undefined",
	}
	for proc, name := range numbers {
		assert.Equal(t, name, ProcName(proc), proc)
		assert.Equal(t, name != "undefined", Defined(Version3, proc), proc)
		assert.Equal(t, name != "undefined" && proc < 16, Defined(Version1, proc), proc)
	}
	assert.Equal(t, "NLM4_GRANTED", Granted.String())
	assert.Equal(t, "NLM4_DENIED_GRACE_PERIOD", Status(4).String())
	assert.Equal(t, "NLM4_FAILED", Status(9).Error())
	assert.Equal(t, "nlm4_stats(10)", Status(10).String())
}

// TestMaxResult checks the maximum length of each procedure's results.
func TestMaxResult(t *testing.T) {
	obj := make([]byte, ObjectLen)
	res := &Res{Cookie: obj}
	share := &ShareRes{Cookie: obj}
	results := map[uint32]message{
		ProcTest: &TestRes{Cookie: obj, Status: Denied, Holder: Holder{Owner: obj}},
		ProcLock: res, ProcCancel: res, ProcUnlock: res, ProcGranted: res, ProcNMLock: res,
		ProcShare: share, ProcUnshare: share,
	}
	for proc := range NumProc + 1 {
		want := 0
		if m := results[proc]; m != nil {
			want = len(m.AppendTo(nil, Version))
		}
		assert.Equal(t, want, MaxResult(proc), ProcName(proc))
	}
}

// FuzzMessages checks that a decoded message survives encoding and decoding.
func FuzzMessages(f *testing.F) {
	for i, tt := range golden {
		f.Add(uint8(i), wiretest.Hex(f, "testdata/"+tt.file+".hex"))
	}
	f.Fuzz(func(t *testing.T, which uint8, wire []byte) {
		g := golden[int(which)%len(golden)]
		first, second := newMessageLike(g.want), newMessageLike(g.want)
		r := xdr.NewReader(wire)
		if first.Decode(&r, g.vers); r.Err() != nil {
			return
		}
		read := r.Offset()
		out := first.AppendTo(nil, g.vers)
		assert.Len(t, out, read)
		r = xdr.NewReader(out)
		second.Decode(&r, g.vers)
		require.NoError(t, r.Done())
		if _, holder := first.(*TestRes); g.vers == Version || !holder {
			assert.Equal(t, first, second)
		}
	})
}
