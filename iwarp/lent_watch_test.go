package iwarp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// lend makes wr lend its data from a file, which can always be read.
func lend(wr rdma.WR) rdma.WR {
	wr.Reread = func([]byte, int) (n, shorter int) { return 0, 0 }
	return wr
}

// TestLentStalls checks that a peer which accepts no bytes loses the connection
// sooner while pages of files are lent to work requests, whether these are
// being written or still waiting, even if they are posted during a write.
func TestLentStalls(t *testing.T) {
	const limit = 50 * time.Millisecond
	for name, tt := range map[string]struct {
		lends int // the work request that lends pages
		apart bool
	}{
		"none": {lends: -1}, "written": {lends: 0}, "waiting": {lends: 1}, "posted later": {lends: 1, apart: true},
	} {
		t.Run(name, func(t *testing.T) {
			world(t)
			a, b := ncPair(t, false)
			narrow(t, a, b)
			in := newInbox()
			c := lab.newConn(newSocket(a), mpa.Params{}, mpa.Frame{}, rdma.ConnConfig{Handler: in}, false)
			assert.Equal(t, 10*time.Second, c.tx.watch.limit, "the time that docs/exports.md promises")
			c.tx.watch.limit = limit
			c.start()
			wrs := make([]rdma.WR, 2)
			for i := range wrs {
				wrs[i] = rdma.WR{Op: rdma.OpWrite, Data: [][]byte{pattern(4 << 20)}}
				if i == tt.lends {
					wrs[i] = lend(wrs[i])
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
				assert.ErrorIs(t, in.end(t), errLentStalls)
			}
			b.Close()
			require.NoError(t, c.Close())
			q := &c.tx
			q.mu.Lock()
			assert.Zero(t, q.lent)
			q.mu.Unlock()
		})
	}
}

// TestLentBehindReads checks that a peer which does not answer RDMA Reads loses
// the connection while pages of files are lent to a work request behind these,
// whether or not it is sent.
func TestLentBehindReads(t *testing.T) {
	for name, reads := range map[string]int{"sent": 1, "waiting": 2} {
		t.Run(name, func(t *testing.T) {
			world(t)
			e, p := againstRaw(t, raw{initiator: true, ord: 1, before: func(c *Conn) {
				c.tx.watch.limit = 50 * time.Millisecond
			}})
			done := make(waiter, 3)
			for range reads {
				require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 8)}, Done: done}))
			}
			require.NoError(t, e.Post(lend(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{pattern(8)}, Done: done})))
			p.readRequest()
			for range reads + 1 {
				assert.ErrorIs(t, done.wait(t).Err, rdma.ErrFlushed)
			}
			assert.ErrorIs(t, e.in.end(t), errLentStalls)
		})
	}
}

// TestLentProgress checks that a peer which answers RDMA Reads slowly keeps the
// connection, and that other messages do not excuse one that is too slow.
func TestLentProgress(t *testing.T) {
	world(t)
	e, p := againstRaw(t, raw{initiator: true, ord: 1, recvs: 10, before: func(c *Conn) {
		c.tx.watch.limit = time.Hour // the test looks
	}})
	q := &e.tx
	stalls := func(looks int) (stalled bool) {
		for range looks {
			stalled = stalled || q.lookLent(false)
		}
		return stalled
	}
	done := make(waiter, 2)
	mem := pattern(3 * lentProgress)
	require.NoError(t, e.Post(
		rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, len(mem))}, Done: done},
		lend(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{pattern(8)}, Fence: true, Done: done}),
	))
	req, msn := p.readRequest(), uint32(0)
	answer := func(from, to int) {
		msn++
		p.send(responseSeg(to == len(mem), req.SinkSTag, req.SinkTO+uint64(from), mem[from:to]), sendSeg(true, msn, 0, pattern(1000)))
		e.in.next(t) // the answer before it has arrived
	}
	assert.False(t, stalls(lentLooks-1))
	answer(0, lentProgress)
	assert.False(t, stalls(lentLooks), "the first look sees progress")
	answer(lentProgress, 2*lentProgress-1)
	assert.True(t, stalls(1), "a byte is missing")

	answer(2*lentProgress-1, len(mem))
	for range 2 {
		require.NoError(t, done.wait(t).Err)
	}
	assert.False(t, stalls(2*lentLooks), "nothing is lent")
	assert.False(t, q.watch.runs)
	require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 8)}, Done: done},
		lend(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{pattern(8)}, Fence: true, Done: done})))
	assert.True(t, stalls(lentLooks))
}
