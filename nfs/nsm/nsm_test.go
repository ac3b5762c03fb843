package nsm

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

var (
	srv          = []byte("srv")
	asker        = Asker{Name: []byte("lh"), Prog: 100021, Vers: 3, Proc: 16}
	local        = Asker{Name: []byte("localhost"), Prog: 100021, Vers: 4, Proc: 16}
	priv         = [PrivLen]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	eleven State = 11
)

var golden = []struct {
	file string
	want message
}{
	{"stat-args", &StatArgs{Name: srv}},
	{"stat-res", &StatRes{Failed: true, State: 7}},
	{"mon-args", &MonArgs{Name: srv, Asker: local, Priv: priv}},
	{"unmon-args", &UnmonArgs{Name: srv, Asker: asker}},
	{"asker", &asker},
	{"state", &eleven},
	{"notify-args", &NotifyArgs{Name: srv, State: 13}},
	{"callback-args", &CallbackArgs{Name: srv, State: 13, Priv: priv}},
}

// TestGolden checks each message in both directions (RNSM-1-1, RNSM-1-2).
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

// TestLimits checks the longest names, and names that are a byte longer
// (RNSM-1-2).
func TestLimits(t *testing.T) {
	for _, n := range []int{NameLen, NameLen + 1} {
		want := error(nil)
		if n > NameLen {
			want = xdr.ErrLong
		}
		name := make([]byte, n)
		for _, m := range []message{
			&StatArgs{Name: name}, &MonArgs{Name: name}, &MonArgs{Asker: Asker{Name: name}}, &UnmonArgs{Name: name},
			&UnmonArgs{Asker: Asker{Name: name}}, &Asker{Name: name}, &NotifyArgs{Name: name}, &CallbackArgs{Name: name},
		} {
			r := xdr.NewReader(m.AppendTo(nil))
			newMessageLike(m).Decode(&r)
			assert.ErrorIs(t, r.Done(), want, "%T with %d bytes", m, n)
		}
	}
	r := xdr.NewReader(wiretest.Bytes(t, "00000002 00000001"))
	new(StatRes).Decode(&r)
	assert.ErrorIs(t, r.Err(), xdr.ErrValue)
}

// TestProgram checks the numbers of procedures (RNSM-1-1).
func TestProgram(t *testing.T) {
	for proc, name := range []string{"NULL", "STAT", "MON", "UNMON", "UNMON_ALL", "SIMU_CRASH", "NOTIFY", "undefined"} {
		assert.Equal(t, name, ProcName(uint32(proc)))
	}
	assert.EqualValues(t, 7, NumProc)
}

// TestMaxResult checks the maximum length of each procedure's results.
func TestMaxResult(t *testing.T) {
	state := len(eleven.AppendTo(nil))
	stat := len((&StatRes{}).AppendTo(nil))
	want := map[uint32]int{ProcStat: stat, ProcMon: stat, ProcUnmon: state, ProcUnmonAll: state}
	for proc := range NumProc + 1 {
		assert.Equal(t, want[proc], MaxResult(proc), ProcName(proc))
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
