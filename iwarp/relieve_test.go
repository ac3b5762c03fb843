package iwarp

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// keeper is an upper layer that keeps its reader at the first message.
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

// While a Receive lasts, somebody else reads on: what came with its message, and
// what comes later, the end of the connection included. What was held back leaves.
func TestRelieve(t *testing.T) {
	world(t)
	k := &keeper{kept: make(chan struct{}), free: make(chan struct{}), gone: make(chan struct{})}
	e, p := againstRaw(t, raw{initiator: true, recvs: 3, before: func(c *Conn) {
		k.inboxHandler, c.handler = c.handler.(*inboxHandler), k
	}})
	p.send(sendSeg(true, 1, 0, []byte("stay")), sendSeg(true, 2, 0, []byte("same read")))
	<-k.kept
	require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("held")}}))
	e.Relieve()
	assert.Equal(t, "same read", string(k.next(t)))
	p.segment()
	p.send(sendSeg(true, 3, 0, []byte("later")))
	assert.Equal(t, "later", string(k.next(t)))
	require.NoError(t, p.nc.Close())
	assert.ErrorIs(t, k.end(t), io.EOF)
	close(k.free)
	<-k.gone
}
