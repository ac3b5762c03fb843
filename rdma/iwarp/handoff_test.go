package iwarp

import (
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
)

// blockingHandler is an upper layer that blocks its reader at the first message.
type blockingHandler struct {
	*inboxHandler
	blocked  chan struct{}
	unblock  chan struct{}
	returned chan struct{}
}

func (k *blockingHandler) Receive(m rdma.Recv) {
	if string(m.Buf.B) == "stay" {
		m.Buf.Release()
		k.blocked <- struct{}{}
		<-k.unblock
		close(k.returned)
		return
	}
	k.inboxHandler.Receive(m)
}

// TestRelieve checks that during a Receive another goroutine continues to read:
// the data that arrived with the message, and later data, including the
// connection's end. Requests that were held back are sent.
func TestRelieve(t *testing.T) {
	checkLeaks(t)
	k := &blockingHandler{blocked: make(chan struct{}), unblock: make(chan struct{}), returned: make(chan struct{})}
	e, p := connectRaw(t, rawOptions{initiator: true, recvs: 3, before: func(c *Conn) {
		k.inboxHandler, c.handler = c.handler.(*inboxHandler), k
	}})
	p.sendSegments(sendSeg(true, 1, 0, []byte("stay")), sendSeg(true, 2, 0, []byte("same read")))
	<-k.blocked
	require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("held")}}))
	e.HandOffReader()
	assert.Equal(t, "same read", string(k.nextMessage(t)))
	p.readSegment()
	p.sendSegments(sendSeg(true, 3, 0, []byte("later")))
	assert.Equal(t, "later", string(k.nextMessage(t)))
	require.NoError(t, p.nc.Close())
	assert.ErrorIs(t, k.closeError(t), io.EOF)
	close(k.unblock)
	<-k.returned
}

// TestRelieveSends checks that the next reader first sends what was held back:
// its first message may keep it as well.
func TestRelieveSends(t *testing.T) {
	checkLeaks(t)
	free := make(chan struct{})
	defer close(free)
	_, p := connectRaw(t, rawOptions{initiator: true, recvs: 3, before: func(c *Conn) {
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
	p.sendSegments(sendSeg(true, 1, 0, []byte("answer")), sendSeg(true, 2, 0, []byte("hand off")), sendSeg(true, 3, 0, []byte("stay")))
	assert.Equal(t, "reply", string(p.readSegment()[18:]))
}

// A blockingInlineCompleter is a Completer that blocks its reader.
type blockingInlineCompleter struct {
	completions chan rdma.Completion
	unblock     chan struct{}
	returned    chan struct{}
}

func (s *blockingInlineCompleter) Complete(rdma.Completion) { panic("not by the reader") }

func (s *blockingInlineCompleter) CompleteInline(c rdma.Completion) {
	s.completions <- c
	<-s.unblock
	close(s.returned)
}

// TestRelieveCompletion checks the same for a completion that the reader
// delivers. After the handoff only the new reader delivers the requests that
// have completed by then.
func TestRelieveCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &blockingInlineCompleter{make(chan rdma.Completion, 1), make(chan struct{}), make(chan struct{})}
		second := blockingCompleter{make(chan rdma.Completion, 1), make(chan struct{})}
		others := make(completionWaiter, 2)
		e, p := connectRaw(t, rawOptions{initiator: true, recvs: 1, pipe: true})
		large := func(done rdma.Completer) { // too large to be held back
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{make([]byte, 2*maxHeld)}, Done: done}))
			for n := 0; n < 2*maxHeld; {
				n += len(p.readSegment()) - ddp.TaggedLen
			}
			synctest.Wait()
		}
		require.NoError(t, e.Post(rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 1)}, Done: s, ID: 1}))
		req := p.expectReadRequest()
		synctest.Wait()
		p.sendSegments(responseSeg(true, req.SinkSTag, req.SinkTO, []byte{1}), sendSeg(true, 1, 0, []byte("same read")))
		assert.Equal(t, rdma.Completion{ID: 1, Op: rdma.OpRead}, <-s.completions)
		large(second)
		assert.Empty(t, second.completions)
		assert.Empty(t, e.inbox.recvs)

		e.HandOffReader()
		<-second.completions
		large(others)
		close(s.unblock)
		<-s.returned
		large(others)
		assert.Empty(t, others, "the second has no notice")
		second.proceed <- struct{}{}
		require.NoError(t, others.wait(t).Err)
		require.NoError(t, others.wait(t).Err)
		assert.Equal(t, "same read", string(e.inbox.nextMessage(t)))
		require.NoError(t, p.nc.Close())
		assert.Error(t, e.inbox.closeError(t))
	})
}
