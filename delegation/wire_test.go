package delegation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
)

func goldenAttr(t testing.TB) []byte { return wiretest.Hex(t, "testdata/acquire-ok.hex")[20:] }

func TestAcquireArgsGolden(t *testing.T) {
	wire := wiretest.Hex(t, "testdata/acquire-args.hex")
	want := AcquireArgs{Handle: []byte{1, 2, 3, 4, 5}, Types: FileData | FileAttributes}
	assert.Equal(t, wire, want.AppendTo(nil))
	for n := range len(wire) + 1 { // cut at every byte
		var a AcquireArgs
		r := xdr.NewReader(wire[:n])
		a.Decode(&r)
		if n < len(wire) {
			require.ErrorIs(t, r.Done(), xdr.ErrShort, n)
			continue
		}
		require.NoError(t, r.Done())
		assert.Equal(t, want, a)
	}
}

func TestAcquireArgsHandle(t *testing.T) {
	for n, want := range map[int]error{0: nil, MaxHandle: nil, MaxHandle + 1: xdr.ErrLong} {
		var a AcquireArgs
		r := xdr.NewReader((&AcquireArgs{Handle: make([]byte, n)}).AppendTo(nil))
		a.Decode(&r)
		assert.ErrorIs(t, r.Done(), want, n)
	}
}

func acquireResults(t testing.TB) map[string]AcquireRes {
	return map[string]AcquireRes{
		"ok": {
			Status: StatusOK, Slot: 0x010203, Generation: 42, Types: FileData | FileAttributes,
			LeaseMS: 10_000, Attr: goldenAttr(t),
		},
		"refused": {Status: StatusRefused, Reason: ReasonContended},
		"acces":   {Status: StatusAcces},
	}
}

func TestAcquireResGolden(t *testing.T) {
	for name, want := range acquireResults(t) {
		t.Run(name, func(t *testing.T) {
			wire := wiretest.Hex(t, "testdata/acquire-"+name+".hex")
			assert.Equal(t, wire, want.AppendTo(nil))
			assert.LessOrEqual(t, len(wire), MaxAcquireRes)
			for n := range len(wire) + 1 {
				var s AcquireRes
				r := xdr.NewReader(wire[:n])
				s.Decode(&r)
				if n < len(wire) {
					require.ErrorIs(t, r.Done(), xdr.ErrShort, n)
					continue
				}
				require.NoError(t, r.Done())
				assert.Equal(t, want, s)
			}
		})
	}
}

// TestAcquireResSenseless checks that grants that no client can use are errors.
func TestAcquireResSenseless(t *testing.T) {
	for name, s := range map[string]AcquireRes{
		"the word of the lease": {Slot: 0, Types: FileData, LeaseMS: 1},
		"a slot of 25 bits":     {Slot: maxSlots, Types: FileData, LeaseMS: 1},
		"no type":               {Slot: 1, Types: 8, LeaseMS: 1},
		"no lease":              {Slot: 1, Types: Directory},
	} {
		s.Attr = goldenAttr(t)
		var got AcquireRes
		r := xdr.NewReader(s.AppendTo(nil))
		got.Decode(&r)
		assert.ErrorIs(t, r.Done(), xdr.ErrValue, name)
	}
}

func TestReasons(t *testing.T) {
	seen := make(map[string]bool)
	for r := ReasonContended; r <= ReasonOver+1; r++ {
		seen[r.String()] = true
	}
	assert.Len(t, seen, int(ReasonOver)+1)
}

func TestImmediateGolden(t *testing.T) {
	for file, kind := range map[string]Kind{"recall": KindRecall, "returned": KindReturned} {
		wire := [8]byte(wiretest.Hex(t, "testdata/"+file+".hex"))
		want := Immediate{Kind: kind, Slot: 0x010203, Generation: 42}
		assert.Equal(t, wire, want.Bytes())
		m, err := ParseImmediate(wire, kind)
		require.NoError(t, err)
		assert.Equal(t, want, m)
		assert.Equal(t, file, kind.String())
		for other := range Kind(4) {
			if _, err := ParseImmediate(wire, other); other != kind {
				assert.ErrorIs(t, err, ErrKind, other)
			}
		}
	}
}

// TestWords checks that the words and the four operations agree with the
// specification, and that no overflow reaches another field.
func TestWords(t *testing.T) {
	w := makeWord(0x12345678, 0x9abcdef0)
	assert.EqualValues(t, 0x123456789abcdef0, w)
	assert.EqualValues(t, 0x12345678, w.generation())
	assert.EqualValues(t, 0x9abcdef0, w.opens())

	const mask = 0x8000000080000000
	assert.Equal(t, rdma.Atomic{Operand: 0x0000000000000001, OperandMask: mask}, OpOpen.Operands())
	assert.Equal(t, rdma.Atomic{Operand: 0x00000000ffffffff, OperandMask: mask}, OpClose.Operands())
	assert.Equal(t, rdma.Atomic{OperandMask: mask}, OpValidate.Operands())
	assert.Equal(t, rdma.Atomic{Operand: 1}, OpRenew.Operands())
	for _, tt := range []struct {
		op       OpKind
		from, to slotWord
	}{
		{OpOpen, makeWord(7, 0), makeWord(7, 1)},
		{OpOpen, makeWord(7, 0x7fffffff), makeWord(7, 0x80000000)},
		{OpOpen, makeWord(7, 0xffffffff), makeWord(7, 0)},
		{OpClose, makeWord(7, 1), makeWord(7, 0)},
		{OpClose, makeWord(7, 0x80000000), makeWord(7, 0x7fffffff)},
		{OpClose, makeWord(7, 0), makeWord(7, 0xffffffff)},
		{OpValidate, makeWord(7, 3), makeWord(7, 3)},
		{OpRenew, 0x00000000ffffffff, 0x0000000100000000},
	} {
		assert.Equal(t, tt.to, slotWord(tt.op.Operands().FetchAdd(uint64(tt.from))), "%d on %v", tt.op, tt.from)
	}
}

// TestRegion checks that Words are the memory on which a peer's atomic
// operations work, in this machine's byte order.
func TestRegion(t *testing.T) {
	memory := make([]byte, 4*rdma.WordLen)
	r, err := NewRegion(memory)
	require.NoError(t, err)
	assert.Len(t, r.memory, 4*rdma.WordLen)
	w, err := rdma.Word(memory, 3*rdma.WordLen)
	require.NoError(t, err)
	w.Store(uint64(makeWord(9, 1)))
	assert.EqualValues(t, makeWord(9, 1), r.Load(3))
	assert.False(t, r.CompareAndSwap(3, uint64(makeWord(9, 0)), 0))
	assert.True(t, r.CompareAndSwap(3, uint64(makeWord(9, 1)), uint64(makeWord(10, 0))))
	assert.EqualValues(t, makeWord(10, 0), w.Load())
	assert.Zero(t, r.Load(2))

	for _, wrong := range [][]byte{nil, memory[:8], memory[:20], memory[1:25]} {
		_, err := NewRegion(wrong)
		assert.Error(t, err, len(wrong))
	}
}

func TestCodecsDoNotAllocate(t *testing.T) {
	args := AcquireArgs{Handle: make([]byte, MaxHandle), Types: allTypes}
	res := acquireResults(t)["ok"]
	b := make([]byte, 0, 256)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		b = res.AppendTo(args.AppendTo(b[:0]))
		r := xdr.NewReader(b)
		args.Decode(&r)
		res.Decode(&r)
		m, err := ParseImmediate(Immediate{KindRecall, 1, 2}.Bytes(), KindRecall)
		if r.Done() != nil || err != nil || m.Slot != 1 {
			t.Error("wrong")
		}
	}))
}

func FuzzAcquireArgs(f *testing.F) {
	f.Add(wiretest.Hex(f, "testdata/acquire-args.hex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var a, again AcquireArgs
		if r := xdr.NewReader(b); !requireDecodes(&r, a.Decode) {
			return
		}
		r := xdr.NewReader(a.AppendTo(nil))
		require.True(t, requireDecodes(&r, again.Decode))
		assert.Equal(t, a, again)
	})
}

func FuzzAcquireRes(f *testing.F) {
	for _, name := range []string{"ok", "refused", "acces"} {
		f.Add(wiretest.Hex(f, "testdata/acquire-"+name+".hex"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again AcquireRes
		if r := xdr.NewReader(b); !requireDecodes(&r, s.Decode) {
			return
		}
		r := xdr.NewReader(s.AppendTo(nil))
		require.True(t, requireDecodes(&r, again.Decode))
		assert.Equal(t, s, again)
	})
}

func FuzzImmediate(f *testing.F) {
	f.Add(wiretest.Hex(f, "testdata/recall.hex"))
	f.Add(wiretest.Hex(f, "testdata/returned.hex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 8 {
			return
		}
		for _, kind := range []Kind{KindRecall, KindReturned} {
			if m, err := ParseImmediate([8]byte(b), kind); err == nil {
				assert.Equal(t, [8]byte(b), m.Bytes())
			}
		}
	})
}

func requireDecodes(r *xdr.Reader, decode func(*xdr.Reader)) bool {
	decode(r)
	return r.Done() == nil
}
