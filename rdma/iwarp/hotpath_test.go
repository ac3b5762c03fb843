package iwarp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestExtensionAllocs checks that neither an atomic operation nor Immediate
// Data allocates at either end.
func TestExtensionAllocs(t *testing.T) {
	checkLeaks(t)
	rq := rdma.NewReceiveQueue()
	o := pairOptions{initiator: Config{CRC: mpa.CRCOff}, responder: Config{CRC: mpa.CRCOff}, recvs: 10_000, immediate: true}
	o.handlers[1] = rq
	a, b := connectPair(t, o)
	r, err := b.Register(make([]byte, 8), rdma.RemoteAtomic)
	require.NoError(t, err)
	cq := rdma.NewCompletionQueue(2)
	wrs := []rdma.WR{
		{Op: rdma.OpImmediate, Done: cq},
		{Op: rdma.OpFetchAdd, Remote: rdma.Remote{STag: r.STag()}, Atomic: rdma.Atomic{Operand: 1}, Done: cq},
	}
	ctx := t.Context()
	once := func() {
		if err := a.Post(wrs...); err != nil {
			t.Error(err)
			return
		}
		for range wrs {
			c, err := cq.Wait(ctx)
			if err != nil || c.Err != nil {
				t.Error(err, c.Err)
			}
		}
		_, _ = rq.Wait(ctx)
	}
	once()
	assert.LessOrEqual(t, testing.AllocsPerRun(2000, once), racetest.PoolLosses(5))
	r.Deregister()
}

// TestExtensionSystemCalls checks that operations posted together are sent with
// one system call, and each answer with another.
func TestExtensionSystemCalls(t *testing.T) {
	checkLeaks(t)
	calls := 0
	e, p := connectRaw(t, rawOptions{initiator: true, before: func(c *Conn) {
		send := c.sock.tcp.wr.call
		c.sock.tcp.wr.call = func(flags int) (int, unix.Errno) { calls++; return send(flags) }
	}})
	require.NoError(t, e.Post(
		rdma.WR{Op: rdma.OpWrite, Data: [][]byte{make([]byte, 1000)}},
		rdma.WR{Op: rdma.OpImmediate},
		rdma.WR{Op: rdma.OpFetchAdd},
		rdma.WR{Op: rdma.OpCompareSwap},
	))
	for range 4 {
		p.readSegment()
	}
	assert.Equal(t, 1, calls)
	r, err := e.Register(make([]byte, 8), rdma.RemoteAtomic)
	require.NoError(t, err)
	p.sendSegments(atomicSeg(1, addRequest(r.STag(), 0, 1)))
	assert.Equal(t, rdmap.AtomicResponse{}, p.expectAtomicResponse(1))
	e.Abort(nil)
	e.inbox.closeError(t)
	assert.Equal(t, 2, calls)
}
