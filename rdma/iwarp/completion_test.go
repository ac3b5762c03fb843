package iwarp

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// blockingCompleter is a Completer that blocks in each completion until released.
type blockingCompleter struct {
	completions chan rdma.Completion
	proceed     chan struct{}
}

func (s blockingCompleter) Complete(c rdma.Completion) {
	s.completions <- c
	<-s.proceed
}

// TestCompletionsInOrder checks that completions are delivered singly and in
// order, from any goroutine.
func TestCompletionsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := blockingCompleter{make(chan rdma.Completion, 9), make(chan struct{})}
		e, p := connectRaw(t, rawOptions{initiator: true, pipe: true})
		require.NoError(t, e.Post(
			rdma.WR{Op: rdma.OpSend, Done: s, ID: 1},
			rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 1)}, Done: s, ID: 2},
		))
		p.readSegment()
		req := p.expectReadRequest()
		p.sendSegments(responseSeg(true, req.SinkSTag, req.SinkTO, []byte{1})) // the reader delivers this completion
		synctest.Wait()
		require.Len(t, s.completions, 1)
		assert.Equal(t, rdma.Completion{ID: 1, Op: rdma.OpSend}, <-s.completions)
		s.proceed <- struct{}{}
		assert.Equal(t, rdma.Completion{ID: 2, Op: rdma.OpRead}, <-s.completions)
		s.proceed <- struct{}{}
	})
}

// TestClosedIsLast checks that Closed is called after the last completion, and
// that Close returns after Closed.
func TestClosedIsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := blockingCompleter{make(chan rdma.Completion, 9), make(chan struct{})}
		e, p := connectRaw(t, rawOptions{initiator: true, pipe: true})
		require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Done: s}, rdma.WR{Op: rdma.OpRead, Data: [][]byte{nil}, Done: s}))
		p.readSegment()
		p.expectReadRequest()
		e.Abort(errors.New("enough"))
		closed := runAsync(func() { e.Close() })
		for i := range 2 {
			synctest.Wait()
			require.Len(t, s.completions, 1)
			assert.Equal(t, i == 0, (<-s.completions).Err == nil)
			assert.Empty(t, e.inbox.closed)
			s.proceed <- struct{}{}
		}
		synctest.Wait()
		assert.Len(t, e.inbox.closed, 1)
		<-closed
	})
}

// TestNoDeadlineAfterStartup checks that the start-up's time limit does not
// apply afterwards.
func TestNoDeadlineAfterStartup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := connectPair(t, pairOptions{pipe: true})
		time.Sleep(24 * time.Hour)
		sendFirst(t, a, b)
		sendFirst(t, b, a)
		for _, e := range []endpoint{a, b} {
			go e.Close() // a pipe cannot be half-closed
		}
		<-a.done
		<-b.done
	})
}

// TestPostDoesNotStay checks that a caller of Post writes for others only for a
// while, even if the socket takes everything.
func TestPostDoesNotStay(t *testing.T) {
	checkLeaks(t)
	returned := make(chan struct{})
	e, _ := connectRaw(t, rawOptions{initiator: true, before: func(c *Conn) {
		wr, calls := &c.sock.tcp.wr, 0
		wr.call = func(int) (n int, errno unix.Errno) {
			if calls++; calls > maxTurns {
				<-returned
			}
			for i := range wr.iov {
				n += int(wr.iov[i].Len)
			}
			return n, 0
		}
	}})
	fate := make(completionWaiter, 1)
	posted := runAsync(func() {
		assert.NoError(t, e.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{make([]byte, 16*maxBatch)}, Done: fate}))
	})
	requireSoon(t, posted, "Post's return")
	close(returned)
	require.NoError(t, fate.wait(t).Err)
}

// TestOneWrite checks that the data for a 1 MiB READ and the message that
// announces them leave together.
func TestOneWrite(t *testing.T) {
	checkLeaks(t)
	var calls int
	e, _ := connectRaw(t, rawOptions{initiator: true, before: func(c *Conn) {
		c.mulpdu = mpa.MaxULPDU
		wr := &c.sock.tcp.wr
		wr.call = func(int) (int, unix.Errno) {
			calls++
			return wr.size, 0
		}
	}})
	fate := make(completionWaiter, 1)
	require.NoError(t, e.Post(
		rdma.WR{Op: rdma.OpWrite, Data: [][]byte{make([]byte, 1<<20)}},
		rdma.WR{Op: rdma.OpSend, Data: [][]byte{make([]byte, 256)}, Done: fate}))
	require.NoError(t, fate.wait(t).Err)
	assert.Equal(t, 1, calls)
}

// TestBufferFits checks that a single-segment message takes a buffer with its
// own size, not the maximum size.
func TestBufferFits(t *testing.T) {
	checkLeaks(t)
	e, p := connectRaw(t, rawOptions{recvs: 2, recvSize: 1 << 20})
	p.sendSegments(sendSeg(true, 1, 0, []byte("small")), sendSeg(false, 2, 0, nil), sendSeg(true, 2, 0, []byte("large")))
	for _, want := range []int{5, 1 << 20} {
		m := e.inbox.nextRecv(t)
		assert.Len(t, m.Buf.B, 5)
		assert.GreaterOrEqual(t, cap(m.Buf.B), want)
		assert.Equal(t, want > 1<<10, cap(m.Buf.B) > 1<<10)
		m.Buf.Release()
	}
}
