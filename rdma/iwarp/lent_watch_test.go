package iwarp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// withReread makes wr lend its data from a file, which can always be read.
func withReread(wr rdma.WR) rdma.WR {
	wr.Reread = func([]byte, int) (n, shorter int) { return 0, 0 }
	return wr
}

// TestLentStalls checks that a peer which accepts no bytes loses the connection
// sooner while file pages are lent to work requests, whether these are being
// written or still waiting, even if they are posted during a write.
func TestLentStalls(t *testing.T) {
	const limit = 50 * time.Millisecond
	for name, tt := range map[string]struct {
		lends int // the work request that lends pages
		apart bool
	}{
		"none": {lends: -1}, "written": {lends: 0}, "waiting": {lends: 1}, "posted later": {lends: 1, apart: true},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			a, b := ncPair(t, false)
			shrinkBuffers(t, a, b)
			in := newInbox()
			c := testDevice.newConn(newSocket(a), mpa.Params{}, mpa.Frame{}, rdma.ConnConfig{Handler: in}, false)
			assert.Equal(t, 10*time.Second, c.tx.watch.limit, "the time that docs/exports.md promises")
			c.tx.watch.limit = limit
			c.startReader()
			wrs := make([]rdma.WR, 2)
			for i := range wrs {
				wrs[i] = rdma.WR{Op: rdma.OpWrite, Data: [][]byte{patternBytes(4 << 20)}}
				if i == tt.lends {
					wrs[i] = withReread(wrs[i])
				}
			}
			if tt.apart {
				require.NoError(t, c.Post(wrs[0]))
				wrs = wrs[1:]
			}
			require.NoError(t, c.Post(wrs...))
			if tt.lends < 0 {
				time.Sleep(4 * limit)
				assert.Empty(t, in.closed)
			} else {
				assert.ErrorIs(t, in.closeError(t), errLentStalls)
			}
			b.Close()
			require.NoError(t, c.Close())
			q := &c.tx
			q.mu.Lock()
			assert.Zero(t, q.lentRequests)
			q.mu.Unlock()
		})
	}
}

// TestLentBehindReads checks that a peer which does not answer RDMA Reads loses
// the connection while file pages are lent to a work request behind these,
// whether or not it is sent.
func TestLentBehindReads(t *testing.T) {
	for name, reads := range map[string]int{"sent": 1, "waiting": 2} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			e, p := connectRaw(t, rawOptions{initiator: true, ord: 1, before: func(c *Conn) {
				c.tx.watch.limit = 50 * time.Millisecond
			}})
			done := make(completionWaiter, 3)
			for range reads {
				require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 8)}, Done: done}))
			}
			require.NoError(t, e.Post(withReread(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{patternBytes(8)}, Done: done})))
			p.expectReadRequest()
			for range reads + 1 {
				assert.ErrorIs(t, done.wait(t).Err, rdma.ErrFlushed)
			}
			assert.ErrorIs(t, e.inbox.closeError(t), errLentStalls)
		})
	}
}

// TestLentProgress checks that a peer which answers RDMA Reads slowly keeps the
// connection, and that other messages do not excuse one that is too slow.
func TestLentProgress(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{initiator: true, ord: 1, recvs: 10, before: func(c *Conn) {
		c.tx.watch.limit = time.Hour // the test looks
	}})
	q := &e.tx
	stalls := func(looks int) (stalled bool) {
		for range looks {
			stalled = stalled || q.updateLentWatch(false)
		}
		return stalled
	}
	done := make(completionWaiter, 2)
	mem := patternBytes(3 * lentProgress)
	require.NoError(t, e.Post(
		rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, len(mem))}, Done: done},
		withReread(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{patternBytes(8)}, Fence: true, Done: done}),
	))
	req, msn := p.expectReadRequest(), uint32(0)
	answer := func(from, to int) {
		msn++
		p.sendSegments(responseSeg(to == len(mem), req.SinkSTag, req.SinkTO+uint64(from), mem[from:to]), sendSeg(true, msn, 0, patternBytes(1000)))
		e.inbox.nextMessage(t) // the answer before it has arrived
	}
	assert.False(t, stalls(lentChecks-1))
	answer(0, lentProgress)
	assert.False(t, stalls(lentChecks), "the first look sees progress")
	answer(lentProgress, 2*lentProgress-1)
	assert.True(t, stalls(1), "a byte is missing")

	answer(2*lentProgress-1, len(mem))
	for range 2 {
		require.NoError(t, done.wait(t).Err)
	}
	assert.False(t, stalls(2*lentChecks), "nothing is lent")
	assert.False(t, q.watch.running)
	require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 8)}, Done: done},
		withReread(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{patternBytes(8)}, Fence: true, Done: done})))
	assert.True(t, stalls(lentChecks))
}
