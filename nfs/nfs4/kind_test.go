package nfs4

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// rpcCall returns an NFSv4 RPC call with AUTH_NONE and the given arguments.
func rpcCall(proc uint32, args []byte) []byte {
	var b []byte
	for _, w := range []uint32{7, rpcmsg.MsgCall, rpcmsg.Version, Program, Version, proc, rpcmsg.AuthNone, 0, rpcmsg.AuthNone, 0} {
		b = xdr.AppendUint32(b, w)
	}
	return append(b, args...)
}

// mainOps are the operations of the captured calls that MainOp finds.
var mainOps = map[string]Op{
	"create_session": OpCreateSession, "destroy_clientid": OpDestroyClientID, "destroy_session": OpDestroySession,
	"exchange_id": OpExchangeID,
}

// TestMainOp checks the operation that determines the cost of Linux's calls,
// whole or truncated at any byte.
func TestMainOp(t *testing.T) {
	files, err := filepath.Glob("testdata/*.call.hex")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".call.hex")
		want, ok := mainOps[name]
		for word := range strings.SplitSeq(name, "-") {
			switch op := opByName(word); op {
			case OpSequence, OpPutFH, OpSaveFH, OpPutRootFH, 0:
			default:
				if !ok {
					want, ok = op, true
				}
			}
		}
		require.True(t, ok, name)
		args := wiretest.Hex(t, file)
		msg := rpcCall(ProcCompound, args)
		assert.Equal(t, want, MainOp(msg), name)
		assert.Zero(t, testing.AllocsPerRun(10, func() { MainOp(msg) }), name)
		for n := range msg {
			if op := MainOp(msg[:n]); op != 0 {
				assert.Equal(t, want, op, "%s cut after %d bytes", name, n)
			}
		}
	}
	read := (&CompoundArgs{Minor: 2, N: 1}).AppendTo(nil)
	read = xdr.AppendUint32(read, uint32(OpRead))
	assert.Equal(t, OpRead, MainOp(rpcCall(ProcCompound, read)))
	assert.Zero(t, MainOp(rpcCall(ProcNull, read)))
	other := rpcCall(ProcCompound, read)
	other[19] = 3 // the version
	assert.Zero(t, MainOp(other))
	leading := (&CompoundArgs{Minor: 2, N: 2}).AppendTo(nil)
	leading = AppendOp(leading, OpSequence, new(SequenceArgs))
	leading = xdr.AppendUint32(leading, uint32(OpPutRootFH))
	assert.Equal(t, OpPutRootFH, MainOp(rpcCall(ProcCompound, leading)))
	copied := AppendOp((&CompoundArgs{Minor: 2, N: 5}).AppendTo(nil), OpSequence, new(SequenceArgs)) // as Linux sends COPY
	for _, h := range []string{"source", "target"} {
		if copied = AppendOp(copied, OpPutFH, &HandleArgs{Object: FH(h)}); h == "source" {
			copied = xdr.AppendUint32(copied, uint32(OpSaveFH))
		}
	}
	assert.Equal(t, OpCopy, MainOp(rpcCall(ProcCompound, xdr.AppendUint32(copied, uint32(OpCopy)))), "not counted with READ")
	unknown := xdr.AppendUint32((&CompoundArgs{Minor: 2, N: 1}).AppendTo(nil), uint32(NumOp))
	assert.Zero(t, MainOp(rpcCall(ProcCompound, unknown)))
}

// opByName returns the operation with a name, or 0.
func opByName(name string) Op {
	for op := OpAccess; op < NumOp; op++ {
		if strings.EqualFold(op.String(), name) {
			return op
		}
	}
	return 0
}

func BenchmarkMainOp(b *testing.B) {
	msg := rpcCall(ProcCompound, wiretest.Hex(b, "testdata/sequence-putfh-read.call.hex"))
	b.ReportAllocs()
	for b.Loop() {
		MainOp(msg)
	}
}
