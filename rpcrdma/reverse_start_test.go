package rpcrdma

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
)

// An eagerDialer dials a server that speaks as soon as a receive is posted.
type eagerDialer struct {
	memDialer
	speak func() // once
}

func (d *eagerDialer) Dial(ctx context.Context, addr string, c rdma.ConnConfig) (rdma.Conn, error) {
	conn, err := d.memDialer.Dial(ctx, addr, c)
	return &eagerConn{conn, d}, err
}

type eagerConn struct {
	rdma.Conn
	d *eagerDialer
}

// PostRecv implements rdma.Conn.
func (c *eagerConn) PostRecv(n int) error {
	err := c.Conn.PostRecv(n)
	if speak := c.d.speak; speak != nil {
		c.d.speak = nil
		go speak()
		time.Sleep(time.Nanosecond) // until the bubble is idle
	}
	return err
}

// TestReverseAtOnce checks that a reverse call may take a receive posted for
// Immediate Data, because the connection has one receive queue.
func TestReverseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, q, ready := rdmatest.Listen(t), &requester{t: t}, make(chan struct{})
		x := new(extensionRecorder).newConfig(4)
		block := x.offerBlock()
		go func() {
			defer close(ready)
			req, err := l.Accept(t.Context())
			require.NoError(t, err)
			private := block.AppendTo(cmpriv.Default.AppendTo(nil))
			c, err := req.Accept(rdma.ConnConfig{Handler: q, PrivateData: private, Recvs: 1 << 20})
			require.NoError(t, err)
			q.Conn = c.(*rdmatest.Conn)
		}()
		d := &eagerDialer{memDialer{l: l}, func() {
			<-ready
			q.sendReverse(7, "now")
		}}
		c, err := DialConn(t.Context(), d, "", ClientConnConfig{Extensions: x, Backchannel: callbackService(repeater)})
		require.NoError(t, err)
		assert.EqualValues(t, 7, q.onlyAnswer().XID)
		require.NoError(t, c.Close())
	})
}
