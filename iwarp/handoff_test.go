package iwarp

import (
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// keeper is an upper layer that blocks its reader at the first message.
type keeper struct {
	*inboxHandler
	kept chan struct{}
	free chan struct{}
	gone chan struct{}
}

func (k *keeper) Receive(m rdma.Recv) {
	if string(m.Buf.B) == "stay" {
		m.Buf.Release()
		k.kept <- struct{}{}
		<-k.free
		close(k.gone)
		return
	}
	k.inboxHandler.Receive(m)
}

// TestRelieve checks that during a Receive another goroutine continues to read:
// the data that arrived with the message, and later data, including the end of
// the connection. Requests that were held back are sent.
func TestRelieve(t *testing.T) {
	world(t)
	k := &keeper{kept: make(chan struct{}), free: make(chan struct{}), gone: make(chan struct{})}
	e, p := againstRaw(t, raw{initiator: true, recvs: 3, before: func(c *Conn) {
		k.inboxHandler, c.handler = c.handler.(*inboxHandler), k
	}})
	p.send(sendSeg(true, 1, 0, []byte("stay")), sendSeg(true, 2, 0, []byte("same read")))
	<-k.kept
	require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("held")}}))
	e.HandOffReader()
	assert.Equal(t, "same read", string(k.next(t)))
	p.segment()
	p.send(sendSeg(true, 3, 0, []byte("later")))
	assert.Equal(t, "later", string(k.next(t)))
	require.NoError(t, p.nc.Close())
	assert.ErrorIs(t, k.end(t), io.EOF)
	close(k.free)
	<-k.gone
}

// TestRelieveSends checks that the next reader first sends what was held back:
// its first message may keep it as well.
func TestRelieveSends(t *testing.T) {
	world(t)
	free := make(chan struct{})
	defer close(free)
	_, p := againstRaw(t, raw{initiator: true, recvs: 3, before: func(c *Conn) {
		c.handler = handlerFunc{c.handler.(*inboxHandler), func(m rdma.Recv) {
			call := string(m.Buf.B)
			m.Buf.Release()
			switch call {
			case "answer":
				_ = c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("reply")}})
				return
			case "hand off":
				c.HandOffReader()
			}
			<-free
		}}
	}})
	p.send(sendSeg(true, 1, 0, []byte("answer")), sendSeg(true, 2, 0, []byte("hand off")), sendSeg(true, 3, 0, []byte("stay")))
	assert.Equal(t, "reply", string(p.segment()[18:]))
}

// A stayer is a Completer that blocks its reader.
type stayer struct {
	came chan rdma.Completion
	free chan struct{}
	gone chan struct{}
}

func (s *stayer) Complete(rdma.Completion) { panic("not by the reader") }

func (s *stayer) CompleteInline(c rdma.Completion) {
	s.came <- c
	<-s.free
	close(s.gone)
}

// TestRelieveCompletion checks the same for a completion that the reader
// delivers. After the handoff only the new reader delivers the requests that
// have completed meanwhile.
func TestRelieveCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stayer{make(chan rdma.Completion, 1), make(chan struct{}), make(chan struct{})}
		second := slow{make(chan rdma.Completion, 1), make(chan struct{})}
		others := make(waiter, 2)
		e, p := againstRaw(t, raw{initiator: true, recvs: 1, pipe: true})
		large := func(done rdma.Completer) { // too large to be held back
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{make([]byte, 2*maxHeld)}, Done: done}))
			for n := 0; n < 2*maxHeld; {
				n += len(p.segment()) - ddp.TaggedLen
			}
			synctest.Wait()
		}
		require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 1)}, Done: s, ID: 1}))
		req := p.readRequest()
		synctest.Wait()
		p.send(responseSeg(true, req.SinkSTag, req.SinkTO, []byte{1}), sendSeg(true, 1, 0, []byte("same read")))
		assert.Equal(t, rdma.Completion{ID: 1, Op: rdma.OpRead}, <-s.came)
		large(second)
		assert.Empty(t, second.came)
		assert.Empty(t, e.in.recvs)

		e.HandOffReader()
		<-second.came
		large(others)
		close(s.free)
		<-s.gone
		large(others)
		assert.Empty(t, others, "the second has no notice")
		second.on <- struct{}{}
		require.NoError(t, others.wait(t).Err)
		require.NoError(t, others.wait(t).Err)
		assert.Equal(t, "same read", string(e.in.next(t)))
		require.NoError(t, p.nc.Close())
		assert.Error(t, e.in.end(t))
	})
}
