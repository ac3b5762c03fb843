package oncrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	nfs      = 100003
	testProg = 0x20000001 // from the range for local use

	procEcho = 1 // echoes an opaque as the reply's data item, followed by a word
	procHead = 2 // echoes an opaque in the reply's head
)

// A handlerFunc is a Handler for one test.
type handlerFunc func(ctx context.Context, c *Call, r *Reply) error

func (f handlerFunc) ServeRPC(ctx context.Context, c *Call, r *Reply) error { return f(ctx, c, r) }

var echoTail = []byte{0xde, 0xad, 0xbe, 0xef}

// serveEcho is the procedures of the test program.
func serveEcho(_ context.Context, c *Call, r *Reply) error {
	data := c.Args.Item(c.MaxReply)
	if err := c.Args.Done(); err != nil {
		return err
	}
	switch c.Proc {
	case procEcho:
		copy(r.NewItem(len(data)), data)
		r.Head = xdr.AppendUint32(r.Head, uint32(len(data)))
		r.Tail = echoTail
	case procHead:
		r.Head = xdr.AppendOpaque(r.Head, data)
	default:
		return ErrProcUnavail
	}
	return nil
}

// echoMux serves echo as versions 2 and 4 of testProg.
func echoMux() *Mux {
	m := new(Mux)
	m.Register(testProg, 4, handlerFunc(serveEcho))
	m.Register(testProg, 2, handlerFunc(serveEcho))
	return m
}

// newCallMessage returns a call message with AUTH_NONE.
func newCallMessage(xid, prog, vers, proc uint32, args ...byte) []byte {
	var b []byte
	for _, w := range []uint32{xid, rpcmsg.MsgCall, rpcmsg.Version, prog, vers, proc, rpcmsg.AuthNone, 0, rpcmsg.AuthNone, 0} {
		b = xdr.AppendUint32(b, w)
	}
	return append(b, args...)
}

func echoCall(xid, proc uint32, data []byte) []byte {
	return newCallMessage(xid, testProg, 2, proc, xdr.AppendOpaque(nil, data)...)
}

// echoReply returns the reply to echoCall with the item inline.
func echoReply(xid, proc uint32, data []byte) []byte {
	b := xdr.AppendOpaque(rpcmsg.AppendAccepted(nil, xid, rpcmsg.Success), data)
	if proc == procEcho {
		b = append(b, echoTail...)
	}
	return b
}

// bytesOf returns the reply in one piece and releases its item.
func bytesOf(r *Reply) []byte {
	b := bytes.Clone(r.Head)
	if r.Item != nil {
		b = xdr.AppendFixed(b, r.Item.B)
	}
	r.DropItem()
	return append(b, r.Tail...)
}

// newFragment returns one fragment of a record.
func newFragment(last bool, data []byte) []byte {
	mark := uint32(len(data))
	if last {
		mark |= lastFrag
	}
	return append(binary.BigEndian.AppendUint32(nil, mark), data...)
}

func newRecord(msg []byte) []byte { return newFragment(true, msg) }

// readRecord reads one record, which must have only one fragment, as all our
// replies do.
func readRecord(t testing.TB, r io.Reader) []byte {
	t.Helper()
	var b [4]byte
	_, err := io.ReadFull(r, b[:])
	require.NoError(t, err)
	mark := binary.BigEndian.Uint32(b[:])
	require.NotZero(t, mark&lastFrag)
	msg := make([]byte, mark&^lastFrag)
	_, err = io.ReadFull(r, msg)
	require.NoError(t, err)
	return msg
}

// discardLogger returns a log for tests that provoke errors.
func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A testServer is a Server on a loopback port.
type testServer struct {
	*Server
	t    *testing.T
	addr string
}

// startServer serves until the test's end, and then checks that nothing is left.
func startServer(t *testing.T, s *Server) *testServer {
	t.Helper()
	s.init()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, s.Shutdown(context.Background()))
		assert.NoError(t, <-served)
		checkNothingLeft(t, s)
	})
	return &testServer{s, t, l.Addr().String()}
}

func checkNothingLeft(t *testing.T, s *Server) {
	assert.Empty(t, s.conns)
	assert.Empty(t, s.listeners)
	assert.Zero(t, s.requestMemory.InUse(), "memory of requests")
	assert.Zero(t, s.replyMemory.InUse(), "memory of replies")
	assert.Zero(t, s.parties.Len(), "parties")
	assert.Zero(t, buf.Default.Out(), "buffers")
}

// dialServer connects. The test's end closes the connection.
func (r *testServer) dialServer() *net.TCPConn {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.addr)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { nc.Close() })
	return nc.(*net.TCPConn)
}
