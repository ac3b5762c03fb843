package rdmatest

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

func TestAtomicAndImmediate(t *testing.T) {
	inBubble(t, rdma.ConnConfig{Recvs: 2, Immediate: true}, func(t *testing.T, a, b *Conn, ua, ub *recordingUser) {
		mem := make([]byte, 16)
		reg, err := b.Register(mem, rdma.RemoteAtomic|rdma.RemoteWrite)
		require.NoError(t, err)
		word, err := rdma.Word(mem, 8)
		require.NoError(t, err)
		word.Store(0x1_0000_ffff)
		at, imm := remoteAt(reg, 8), [8]byte{1, 2, 3}
		require.NoError(t, a.Post(
			rdma.WR{Op: rdma.OpFetchAdd, Remote: at, Atomic: rdma.Atomic{Operand: 1, OperandMask: 0x8000}, Done: ua, ID: 1},
			rdma.WR{Op: rdma.OpCompareSwap, Remote: at, Atomic: rdma.Atomic{
				Operand: 7, OperandMask: rdma.AllBits, Compare: 0x1_0000_0000, CompareMask: rdma.AllBits,
			}, Done: ua, ID: 2},
			rdma.WR{Op: rdma.OpWrite, Remote: remoteAt(reg, 0), Data: [][]byte{{9}}},
			rdma.WR{Op: rdma.OpImmediate, Immediate: imm, Solicited: true, Fence: true, Done: ua, ID: 3},
		))
		synctest.Wait()
		assert.Equal(t, []rdma.Completion{
			{ID: 1, Op: rdma.OpFetchAdd, Original: 0x1_0000_ffff},
			{ID: 2, Op: rdma.OpCompareSwap, Original: 0x1_0000_0000},
			{ID: 3, Op: rdma.OpImmediate},
		}, ua.done)
		assert.EqualValues(t, 7, word.Load())
		assert.EqualValues(t, 9, mem[0])
		assert.Equal(t, []rdma.Recv{{Immediate: imm, WithImmediate: true, Solicited: true}}, ub.recvs)
		assert.Equal(t, 1, b.Recvs())
		require.NoError(t, rdma.ProbeAtomics(t.Context(), a, at))
	})
}

func TestAtomicAndImmediateViolations(t *testing.T) {
	for name, tt := range map[string]struct {
		wr   func(atomic, write rdma.Region) rdma.WR
		want error
	}{
		"no right":  {func(_, w rdma.Region) rdma.WR { return fetchAddWR(remoteAt(w, 0)) }, ErrAccess},
		"bounds":    {func(a, _ rdma.Region) rdma.WR { return fetchAddWR(remoteAt(a, 9)) }, ErrAccess},
		"unaligned": {func(a, _ rdma.Region) rdma.WR { return fetchAddWR(remoteAt(a, 4)) }, ErrUnaligned},
		"write":     {func(a, _ rdma.Region) rdma.WR { return writeWR(remoteAt(a, 0), 8) }, ErrAccess},
		"not taken": {func(_, _ rdma.Region) rdma.WR { return rdma.WR{Op: rdma.OpImmediate} }, rdma.ErrUnsupportedOp},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, rdma.ConnConfig{Recvs: 1}, func(t *testing.T, a, b *Conn, ua, ub *recordingUser) {
				mem := make([]byte, 16)
				atomics, err := b.Register(mem, rdma.RemoteAtomic)
				require.NoError(t, err)
				writes, err := b.Register(mem, rdma.RemoteWrite)
				require.NoError(t, err)
				require.NoError(t, a.Post(tt.wr(atomics, writes)))
				synctest.Wait()
				require.Len(t, ub.closed, 1)
				assert.ErrorIs(t, ub.closed[0], tt.want)
				assert.ErrorIs(t, ua.closed[0], tt.want)
				assert.Equal(t, make([]byte, 16), mem)
			})
		})
	}
	inBubble(t, rdma.ConnConfig{Immediate: true}, func(t *testing.T, a, _ *Conn, ua, ub *recordingUser) {
		for _, op := range []rdma.Op{rdma.OpFetchAdd, rdma.OpImmediate, rdma.OpImmediate + 1} {
			assert.Error(t, a.Post(rdma.WR{Op: op, Data: [][]byte{nil}}))
		}
		require.NoError(t, a.Post(rdma.WR{Op: rdma.OpImmediate}))
		synctest.Wait()
		assert.ErrorIs(t, ub.closed[0], ErrNoRecv)
	})
}

func fetchAddWR(at rdma.Remote) rdma.WR {
	return rdma.WR{Op: rdma.OpFetchAdd, Remote: at, Atomic: rdma.Atomic{Operand: 1}}
}
