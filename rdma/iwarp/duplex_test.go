package iwarp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// echoHandler posts a reply to each message, and again to each completed Send, in the
// goroutines that call its methods.
type echoHandler struct {
	*inboxHandler
	c *Conn
}

func (h *echoHandler) Receive(m rdma.Recv) {
	b := append([]byte{}, m.Buf.B...)
	h.inboxHandler.Receive(m)
	_ = h.c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{b}, Done: h})
}

// Complete posts one Write for each completed Send.
func (h *echoHandler) Complete(c rdma.Completion) {
	if c.Op == rdma.OpSend && c.Err == nil {
		_ = h.c.Post(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{{2}}, Done: h})
	}
}

// TestReaderWaitsForNobody checks that the reader waits for no writer: a peer
// that sends everything before it reads is read, although this end has much to
// send and its upper layer posts from Receive and Complete.
func TestReaderWaitsForNobody(t *testing.T) {
	for _, o := range streams {
		checkLeaks(t)
		const messages, size = 1000, 2000
		o.recvs = messages
		o.before = func(c *Conn) { c.handler = &echoHandler{c.handler.(*inboxHandler), c} }
		e, p := connectRaw(t, o)
		shrinkBuffers(t, e.sock, p.nc)
		mem, body := patternBytes(2<<20), patternBytes(size)
		r, err := e.Register(mem, rdma.RemoteRead)
		require.NoError(t, err)
		require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{mem}}))
		segments := [][]byte{requestSeg(1, rdmap.ReadRequest{Size: uint32(len(mem)), SourceSTag: r.STag()})}
		for i := range uint32(messages) {
			segments = append(segments, sendSeg(true, i+1, 0, body))
		}
		p.sendSegments(segments...) // 2 MB, while the peer reads nothing
		for range messages {
			m := e.inbox.nextRecv(t)
			require.Len(t, m.Buf.B, size)
			m.Buf.Release()
		}
		sends, writes, total := 0, 0, 0
		for writes < messages {
			switch segment := p.readSegment(); segment[1] {
			case 0x40:
				writes++
			case 0x42:
				total += len(segment) - 14
			case 0x43:
				if total += len(segment) - 18; segment[0]&0x40 != 0 {
					sends++
				}
			}
		}
		assert.Equal(t, messages+1, sends)
		assert.Equal(t, 2*len(mem)+messages*size, total)
		r.Deregister()
	}
}
