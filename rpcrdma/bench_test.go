package rpcrdma

import (
	"context"
	"encoding/binary"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An instantConn connection completes posted work at once, and keeps nothing.
type instantConn struct {
	rdma.Conn
	sent chan struct{}
}

func (c *instantConn) Post(wrs ...rdma.WR) error {
	for i := range wrs {
		if wr := &wrs[i]; wr.Done != nil {
			op := wr.Op
			wr.Done.Complete(rdma.Completion{ID: wr.ID, Op: op})
			if op == rdma.OpSend {
				c.sent <- struct{}{}
			}
		}
	}
	return nil
}

func (c *instantConn) PostRecv(int) error  { return nil }
func (c *instantConn) HandOffReader()      {}
func (c *instantConn) LocalAddr() net.Addr { return &net.TCPAddr{} }
func (c *instantConn) Close() error        { return nil }

// An instantRequest asks for an instant connection.
type instantRequest struct {
	rdma.ConnRequest
	conn *instantConn
}

func (r *instantRequest) PrivateData() []byte                       { return linux.AppendTo(nil) }
func (r *instantRequest) RemoteAddr() net.Addr                      { return &net.TCPAddr{} }
func (r *instantRequest) Accept(rdma.ConnConfig) (rdma.Conn, error) { return r.conn, nil }

// newCallRunner returns a function that makes the server answer one call of each form
// that NFS uses, or of the given forms, and a function that ends the server.
func newCallRunner(t testing.TB, forms ...wire.Header) (run, stop func()) {
	item := make([]byte, 4096)
	s := &Server{Handler: serviceFunc(func(_ context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		rep.Head = appendSuccess(rep.Head, binary.BigEndian.Uint32(req.Msg))
		if req.MaxReply > 8000 {
			copy(rep.NewItem(len(item)), item)
		}
		return true
	})}
	require.NoError(t, s.init())
	ic := &instantConn{sent: make(chan struct{}, 1)}
	req := &instantRequest{conn: ic}
	c, _ := s.admitConn(req)
	c.acceptPeer(req)

	if forms == nil {
		inline, read, write := newMsg(chunks.Lists{}), newMsg(chunks.Lists{}), newMsg(chunks.Lists{})
		seg := chunks.Segment{Handle: 7, Length: 8192}
		read.Lists.Reads = []chunks.ReadSegment{{Position: 40, Segment: seg}}
		write.Lists.AddWrite(chunks.Chunk{seg})
		forms = []wire.Header{inline, read, write}
	}
	var wires [][]byte
	for _, h := range forms {
		h.Vers = wire.Version
		wires = append(wires, append(h.AppendTo(nil), rpcCall(testXID, "")...))
	}
	run = func() {
		for _, wire := range wires {
			b := buf.Default.Get(len(wire))
			copy(b.B, wire)
			c.Receive(rdma.Recv{Buf: b})
			<-ic.sent
		}
	}
	stop = func() {
		c.Closed(nil)
		require.NoError(t, s.Shutdown(t.Context()))
	}
	return run, stop
}

// TestCallAllocs checks that a call costs the responder no allocation.
func TestCallAllocs(t *testing.T) {
	run, stop := newCallRunner(t)
	defer stop()
	run()
	// The pools of goroutines and calls may lose an item to the collector.
	assert.Less(t, testing.AllocsPerRun(500, run), 1.0)
}

// BenchmarkShortCall measures a call that the reader serves.
func BenchmarkShortCall(b *testing.B) {
	run, stop := newCallRunner(b, newMsg(chunks.Lists{}))
	defer stop()
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}

func BenchmarkCalls(b *testing.B) {
	run, stop := newCallRunner(b)
	defer stop()
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}
