package nfs4

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// cbForms creates empty arguments and results for each callback.
var cbForms = map[CBOp][2]func() Message{
	CBOpGetAttr:    {form[CBGetAttrArgs], form[GetAttrRes]},
	CBOpRecall:     {form[CBRecallArgs], form[StatusRes]},
	CBOpRecallAny:  {form[CBRecallAnyArgs], form[StatusRes]},
	CBOpRecallSlot: {form[CBRecallSlotArgs], form[StatusRes]},
	CBOpSequence:   {form[CBSequenceArgs], form[CBSequenceRes]},
	CBOpNotifyLock: {form[CBNotifyLockArgs], form[StatusRes]},
	CBOpOffload:    {form[CBOffloadArgs], form[StatusRes]},
}

// readOracleCB reads one callback's number and arguments or results.
func readOracleCB(r io.Reader, result int) (m io.WriterTo, err error) {
	if result == 1 {
		m, _, err = nfsv4.ReadNfsCbResop4(r)
	} else {
		m, _, err = nfsv4.ReadNfsCbArgop4(r)
	}
	return m, err
}

// TestCBOracle reads and writes callbacks that the oracle accepts, with every arm
// of every union.
func TestCBOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for op := range cbForms {
		for result := range 2 {
			accepted := 0
			for try := 0; try < 4000 && accepted < 100; try++ {
				var wire bytes.Buffer
				number := bytes.NewReader(binary.BigEndian.AppendUint32(nil, uint32(op)))
				in := io.TeeReader(io.MultiReader(number, io.LimitReader(newWords(rng), longest)), &wire)
				if m, err := readOracleCB(in, result); err == nil && checkCBAccepted(t, op, result, m, wire.Bytes()) {
					accepted++
				}
			}
			assert.GreaterOrEqual(t, accepted, 20, "%s %d", op, result)
		}
	}
}

// checkCBAccepted checks that this package accepts a callback that the oracle
// has accepted.
func checkCBAccepted(t *testing.T, op CBOp, result int, accepted io.WriterTo, wire []byte) bool {
	t.Helper()
	m := cbForms[op][result]()
	r := xdr.NewReader(wire[4:])
	if m.Decode(&r); r.Err() != nil {
		require.False(t, isDefined(reflect.ValueOf(accepted)), "%s %d %x: %v", op, result, wire, r.Err())
		return false
	}
	require.NoError(t, r.Done(), "%s %d %x", op, result, wire)
	if hasBeyond(m) {
		return true
	}
	out := AppendCBOp(nil, op, m)
	if len(out) == len(wire) { // otherwise a bitmap has lost zero words
		assert.Equal(t, wire, out, "%s %d", op, result)
		return true
	}
	read, err := readOracleCB(bytes.NewReader(out), result)
	require.NoError(t, err, "%s %d %x: %x", op, result, wire, out)
	var echo bytes.Buffer
	_, err = read.WriteTo(&echo)
	require.NoError(t, err)
	assert.Equal(t, out, echo.Bytes())
	return true
}

// TestCBGolden reads and writes a callback from Linux's server, and its client's
// reply.
func TestCBGolden(t *testing.T) {
	wire := wiretest.Hex(t, "testdata/callback/cb_sequence-cb_recall_any.call.hex")
	r := xdr.NewReader(wire)
	var head CBCompoundArgs
	head.Decode(&r)
	require.Equal(t, CBCompoundArgs{Tag: []byte{}, Minor: 2, N: 2}, head)
	out := head.AppendTo(nil)
	var seq CBSequenceArgs
	require.Equal(t, CBOpSequence, CBOp(r.Uint32()))
	seq.Decode(&r)
	assert.EqualValues(t, 1, seq.Sequence)
	var recall CBRecallAnyArgs
	require.Equal(t, CBOpRecallAny, CBOp(r.Uint32()))
	recall.Decode(&r)
	assert.Equal(t, RecallAnyRead, recall.Types.Words[0])
	require.NoError(t, r.Done())
	assert.Equal(t, wire, AppendCBOp(AppendCBOp(out, CBOpSequence, &seq), CBOpRecallAny, &recall))

	wire = wiretest.Hex(t, "testdata/callback/cb_sequence-cb_recall_any.reply.hex")
	r = xdr.NewReader(wire)
	var res CompoundRes
	res.Decode(&r)
	out = res.AppendTo(nil)
	var seqRes CBSequenceRes
	require.Equal(t, CBOpSequence, CBOp(r.Uint32()))
	seqRes.Decode(&r)
	assert.EqualValues(t, 15, seqRes.TargetHighestSlotID)
	var done StatusRes
	require.Equal(t, CBOpRecallAny, CBOp(r.Uint32()))
	done.Decode(&r)
	require.NoError(t, r.Done())
	assert.Equal(t, wire, AppendCBOp(AppendCBOp(out, CBOpSequence, &seqRes), CBOpRecallAny, &done))
}

// TestCBGetAttrGolden reads and writes CB_GETATTR and its results: R9754-5.2-1.
func TestCBGetAttrGolden(t *testing.T) {
	both := BitmapOf(AttrChange, AttrSize)
	four := BitmapOf(AttrChange, AttrSize, AttrTimeDelegAccess, AttrTimeDelegModify)
	for file, want := range map[string]Message{
		"cb_getattr.call.hex":       &CBGetAttrArgs{Object: FH{1, 2, 3, 4, 5}, Request: both},
		"cb_getattr.reply.hex":      &GetAttrRes{Attrs: Attrs{Mask: both, Change: 0x17a1b2c3d4e5f607, Size: 1000}},
		"cb_getattr-times.call.hex": &CBGetAttrArgs{Object: FH{1, 2, 3, 4, 5}, Request: four},
		"cb_getattr-times.reply.hex": &GetAttrRes{Attrs: Attrs{
			Mask: four, Change: 0x17a1b2c3d4e5f607, Size: 1000,
			TimeDelegAccess: Time{Sec: 0x65000000, Nsec: 1}, TimeDelegModify: Time{Sec: 0x65000001, Nsec: 999_999_999},
		}},
	} {
		wire := wiretest.Hex(t, "testdata/callback/"+file)
		r := xdr.NewReader(wire)
		require.Equal(t, CBOpGetAttr, CBOp(r.Uint32()))
		got := reflect.New(reflect.TypeOf(want).Elem()).Interface().(Message)
		got.Decode(&r)
		require.NoError(t, r.Done(), file)
		assert.Equal(t, want, got)
		assert.Equal(t, wire, AppendCBOp(nil, CBOpGetAttr, want))
	}
}

// TestCBBounds checks that overlong lists of referring calls are rejected.
func TestCBBounds(t *testing.T) {
	for _, seq := range []CBSequenceArgs{
		{Referring: make([]ReferringCalls, maxListLen+1)},
		{Referring: []ReferringCalls{{Calls: make([]ReferringCall, maxListLen+1)}}},
	} {
		r := xdr.NewReader(seq.AppendTo(nil))
		new(CBSequenceArgs).Decode(&r)
		assert.ErrorIs(t, r.Err(), xdr.ErrLong)
	}
	for op := range cbForms {
		assert.Contains(t, op.String(), "CB_")
	}
	assert.Equal(t, "CB_ILLEGAL", CBOpIllegal.String())
	assert.Equal(t, "nfs_cb_opnum4(2)", CBOp(2).String())
}

// FuzzCallback reads callbacks, as a client does from an untrusted server.
func FuzzCallback(f *testing.F) {
	f.Add(uint32(CBOpSequence), false, make([]byte, 36))
	f.Add(uint32(CBOpOffload), false, make([]byte, 60))
	f.Add(uint32(CBOpGetAttr), true, []byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9})
	f.Add(uint32(CBOpGetAttr), true, (&GetAttrRes{Attrs: Attrs{Mask: BitmapOf(AttrTimeDelegAccess, AttrTimeDelegModify)}}).AppendTo(nil))
	f.Fuzz(func(t *testing.T, number uint32, results bool, wire []byte) {
		each, ok := cbForms[CBOp(number)]
		if !ok {
			return
		}
		m := each[0]()
		if results {
			m = each[1]()
		}
		r := xdr.NewReader(wire)
		if m.Decode(&r); r.Err() != nil || hasBeyond(m) {
			return
		}
		out := m.AppendTo(nil)
		again := xdr.NewReader(out)
		m.Decode(&again)
		assert.NoError(t, again.Done())
		assert.Equal(t, out, m.AppendTo(nil))
	})
}
