package iwarp

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestProbe checks that adding 0 finds out whether the peer performs atomic
// operations, and changes nothing (R7306-1.1-4, RX01-1.1-1).
func TestProbe(t *testing.T) {
	checkLeaks(t)
	a, b := connectPair(t, pairOptions{})
	mem := patternBytes(64)
	r, err := b.Register(mem, rdma.RemoteAtomic)
	require.NoError(t, err)
	require.NoError(t, rdma.ProbeAtomics(t.Context(), a, rdma.Remote{STag: r.STag(), TO: r.TO() + 8}))

	wrong := rdma.ProbeAtomics(t.Context(), a, rdma.Remote{STag: r.STag(), TO: 1})
	require.ErrorIs(t, wrong, rdmap.ErrStream) // the peer performs them, but not on this word
	require.NotErrorIs(t, wrong, rdma.ErrUnsupportedOp)
	require.ErrorIs(t, rdma.ProbeAtomics(t.Context(), a, rdma.Remote{}), rdma.ErrClosed)
	require.Error(t, b.inbox.closeError(t))
	assert.Equal(t, patternBytes(64), mem)
}

// TestProbeContext checks that the wait for a silent peer ends with the
// context.
func TestProbeContext(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{initiator: true})
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	got := runAsyncErr(func() error { return rdma.ProbeAtomics(ctx, e, rdma.Remote{STag: 1}) })
	req, _ := p.expectAtomicRequest()
	assert.Equal(t, rdmap.AtomicRequest{Op: rdma.OpFetchAdd, ID: req.ID, STag: 1}, req) // R7306-1.1-4
	cancel(enough)
	require.ErrorIs(t, <-got, enough)
}

// TestPeerLacksExtensions checks which Terminates report that the peer does not
// know an operation, and which do not (R7306-1.1-5).
func TestPeerLacksExtensions(t *testing.T) {
	header := func(op rdmap.Opcode) []byte { return rdmap.AppendUntagged(nil, op, true, 0, 1, 0) }
	told := func(op rdmap.Opcode) []byte {
		return rdmap.NewTerminate(rdmap.ErrOpcode, header(op), ddp.UntaggedLen).AppendTo(nil)
	}
	terminate := func(s string) []byte { return wiretest.Bytes(t, s) }
	request := rdma.WR{Op: rdma.OpFetchAdd}
	for name, tt := range map[string]struct {
		wr        rdma.WR
		terminate []byte
		lacks     bool
		cause     error
	}{
		"RFC 5040, Atomic Request":              {request, told(rdmap.OpAtomicRequest), true, rdmap.ErrOpcode},
		"RFC 5040, Immediate Data":              {rdma.WR{Op: rdma.OpImmediate}, told(rdmap.OpImmediate), true, rdmap.ErrOpcode},
		"RFC 5040, Immediate Data with SE":      {rdma.WR{Op: rdma.OpImmediate, Solicited: true}, told(rdmap.OpImmediateSE), true, rdmap.ErrOpcode},
		"RFC 5040, no header":                   {request, terminate("02 06 00 00"), true, rdmap.ErrOpcode},
		"siw":                                   {request, terminate("20 06 00 00"), true, rdmap.ErrOpcode},
		"siw, after a Send":                     {rdma.WR{Op: rdma.OpSend}, terminate("20 06 00 00"), false, mpa.ErrIRD},
		"of another message":                    {request, told(rdmap.OpSend), false, rdmap.ErrOpcode},
		"no header, after a Send":               {rdma.WR{Op: rdma.OpSend}, terminate("02 06 00 00"), false, rdmap.ErrOpcode},
		"another error":                         {request, terminate("02 07 00 00"), false, rdmap.ErrStream},
		"of a message that was never sent here": {rdma.WR{Op: rdma.OpSend}, told(rdmap.OpImmediate), false, rdmap.ErrOpcode},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{initiator: true})
			done := make(completionWaiter, 2)
			tt.wr.Done = done
			require.NoError(t, e.Post(tt.wr, rdma.WR{Op: rdma.OpRead, Data: [][]byte{nil}, Done: done}))
			p.readSegment()
			p.expectReadRequest()
			p.sendSegments(append(header(rdmap.OpTerminate)[:6:6], append([]byte{0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0}, tt.terminate...)...))
			err := e.inbox.closeError(t)
			require.ErrorIs(t, err, tt.cause)
			assert.Equal(t, tt.lacks, errors.Is(err, rdma.ErrUnsupportedOp), "%v", err)
			done.wait(t)
			read := done.wait(t)
			require.ErrorIs(t, read.Err, rdma.ErrFlushed)
			assert.Equal(t, tt.lacks, errors.Is(read.Err, rdma.ErrUnsupportedOp), "%v", read.Err)
			assert.Equal(t, tt.lacks, errors.Is(e.Post(tt.wr), rdma.ErrUnsupportedOp))
			if tt.lacks {
				assert.ErrorContains(t, err, "does not support atomic operations or immediate data: RDMAP remote operation error: unexpected opcode")
			}
		})
	}
}
