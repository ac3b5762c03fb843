package nfs4

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestMinor2Forms checks that a COMPOUND has one form in minor versions 1 and 2, and that the
// latter adds the operations 59 to 71 and the attributes 77 to 80 (R7862-2-1).
func TestMinor2Forms(t *testing.T) {
	const sequence = "00000035 000102030405060708090a0b0c0d0e0f 00000007 00000001 00000003 00000001"
	for minor, word := range map[uint32]string{Minor1: "00000001", Minor2: "00000002"} {
		wire := wiretest.Bytes(t, "00000003 61626300"+word+"00000001"+sequence)
		r := xdr.NewReader(wire)
		var head CompoundArgs
		head.Decode(&r)
		assert.Equal(t, CompoundArgs{Tag: []byte("abc"), Minor: minor, N: 1}, head)
		require.Equal(t, OpSequence, Op(r.Uint32()))
		var seq SequenceArgs
		seq.Decode(&r)
		require.NoError(t, r.Done())
		assert.Equal(t, wire, AppendOp(head.AppendTo(nil), OpSequence, &seq), "R7862-2-1")
	}
	for op := OpAccess; op < NumOp; op++ {
		first, _, ok := op.Minors()
		require.True(t, ok, op)
		assert.Equal(t, op >= 59, first == Minor2, "R7862-2-1: %s", op)
	}
	assert.EqualValues(t, 59, OpAllocate, "R7862-2-1")
	assert.EqualValues(t, 71, OpClone, "R7862-2-1")
}

// TestCBOffloadGolden reads and writes both arms of CB_OFFLOAD: the results of a copy that has
// succeeded, and the number of bytes that were copied before an error (R7862-16.1-1).
func TestCBOffloadGolden(t *testing.T) {
	const (
		op      = "0000000f"
		object  = "00000005 0102030405 000000"
		stateid = "00000001 a0a1a2a3a4a5a6a7a8a9aaab"
	)
	args := CBOffloadArgs{
		Object:  FH{1, 2, 3, 4, 5},
		StateID: StateID{SeqID: 1, Other: [OtherSize]byte{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab}},
	}
	done, failed := args, args
	done.Response = WriteResponse{Count: 0x10_0000_0001, Committed: FileSync, Verf: Verifier{1, 2, 3, 4, 5, 6, 7, 8}}
	failed.Status, failed.Copied = ErrNoSpc, 0x20_0000_0002
	for status, tt := range map[string]struct {
		rest string
		args CBOffloadArgs
	}{
		"00000000": {"00000000 00000010 00000001 00000002 0102030405060708", done},
		"0000001c": {"00000020 00000002", failed},
	} {
		wire := wiretest.Bytes(t, op+object+stateid+status+tt.rest)
		r := xdr.NewReader(wire)
		require.Equal(t, CBOpOffload, CBOp(r.Uint32()))
		var got CBOffloadArgs
		got.Decode(&r)
		require.NoError(t, r.Done(), status)
		assert.Equal(t, tt.args, got, "R7862-16.1-1")
		assert.Equal(t, wire, AppendCBOp(nil, CBOpOffload, &tt.args), "R7862-16.1-1")
	}
}
