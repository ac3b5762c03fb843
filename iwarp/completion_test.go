package iwarp

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// slow is a Completer that blocks in each completion until released.
type slow struct {
	came chan rdma.Completion
	on   chan struct{}
}

func (s slow) Complete(c rdma.Completion) {
	s.came <- c
	<-s.on
}

// TestCompletionsInOrder checks that completions are delivered singly and in
// order, from any goroutine.
func TestCompletionsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow{make(chan rdma.Completion, 9), make(chan struct{})}
		e, p := againstRaw(t, raw{initiator: true, pipe: true})
		require.NoError(t, e.Post(
			rdma.WR{Op: rdma.OpSend, Done: s, ID: 1},
			rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 1)}, Done: s, ID: 2},
		))
		p.segment()
		req := p.readRequest()
		p.send(responseSeg(true, req.SinkSTag, req.SinkTO, []byte{1})) // the reader delivers this completion
		synctest.Wait()
		require.Len(t, s.came, 1)
		assert.Equal(t, rdma.Completion{ID: 1, Op: rdma.OpSend}, <-s.came)
		s.on <- struct{}{}
		assert.Equal(t, rdma.Completion{ID: 2, Op: rdma.OpRead}, <-s.came)
		s.on <- struct{}{}
	})
}

// TestClosedIsLast checks that Closed is called after the last completion, and
// that Close returns after Closed.
func TestClosedIsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow{make(chan rdma.Completion, 9), make(chan struct{})}
		e, p := againstRaw(t, raw{initiator: true, pipe: true})
		require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Done: s}, rdma.WR{Op: rdma.OpRead, Data: [][]byte{nil}, Done: s}))
		p.segment()
		p.readRequest()
		e.Abort(errors.New("enough"))
		closed := done(func() { e.Close() })
		for i := range 2 {
			synctest.Wait()
			require.Len(t, s.came, 1)
			assert.Equal(t, i == 0, (<-s.came).Err == nil)
			assert.Empty(t, e.in.closed)
			s.on <- struct{}{}
		}
		synctest.Wait()
		assert.Len(t, e.in.closed, 1)
		<-closed
	})
}

// TestNoDeadlineAfterStartup checks that the time limit of the start-up does
// not apply afterwards.
func TestNoDeadlineAfterStartup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, options{pipe: true})
		time.Sleep(24 * time.Hour)
		open(t, a, b)
		open(t, b, a)
		for _, e := range []endpoint{a, b} {
			go e.Close() // a pipe cannot be half-closed
		}
		<-a.over
		<-b.over
	})
}

// TestPostDoesNotStay checks that a caller of Post writes for others only for a
// while, even if the socket takes everything.
func TestPostDoesNotStay(t *testing.T) {
	world(t)
	returned := make(chan struct{})
	e, _ := againstRaw(t, raw{initiator: true, before: func(c *Conn) {
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
	fate := make(waiter, 1)
	posted := done(func() {
		assert.NoError(t, e.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{make([]byte, 16*maxBatch)}, Done: fate}))
	})
	within(t, posted, "Post's return")
	close(returned)
	require.NoError(t, fate.wait(t).Err)
}

// TestOneWrite checks that the data of a READ of 1 MiB and the message that
// announces the data leave together.
func TestOneWrite(t *testing.T) {
	world(t)
	var calls int
	e, _ := againstRaw(t, raw{initiator: true, before: func(c *Conn) {
		c.mulpdu = mpa.MaxULPDU
		wr := &c.sock.tcp.wr
		wr.call = func(int) (int, unix.Errno) {
			calls++
			return wr.size, 0
		}
	}})
	fate := make(waiter, 1)
	require.NoError(t, e.Post(
		rdma.WR{Op: rdma.OpWrite, Data: [][]byte{make([]byte, 1<<20)}},
		rdma.WR{Op: rdma.OpSend, Data: [][]byte{make([]byte, 256)}, Done: fate}))
	require.NoError(t, fate.wait(t).Err)
	assert.Equal(t, 1, calls)
}

// TestBufferFits checks that a message of one segment takes a buffer of its own
// size, not of the maximum size.
func TestBufferFits(t *testing.T) {
	world(t)
	e, p := againstRaw(t, raw{recvs: 2, recvSize: 1 << 20})
	p.send(sendSeg(true, 1, 0, []byte("small")), sendSeg(false, 2, 0, nil), sendSeg(true, 2, 0, []byte("large")))
	for _, want := range []int{5, 1 << 20} {
		m := e.in.recv(t)
		assert.Len(t, m.Buf.B, 5)
		assert.GreaterOrEqual(t, cap(m.Buf.B), want)
		assert.Equal(t, want > 1<<10, cap(m.Buf.B) > 1<<10)
		m.Buf.Release()
	}
}
