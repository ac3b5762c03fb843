package rpcrdma

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A serviceFunc is a function as an oncrpc.Service.
type serviceFunc func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool

func (s serviceFunc) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	return s(ctx, req, rep)
}

// A testServer is a server with a listener in memory.
type testServer struct {
	*Server
	t      *testing.T
	tap    *tapListener
	listen *rdmatest.Listener
	served chan error
}

// withServer runs f in a bubble with a server, and checks that no resources leak: a
// goroutine fails the bubble.
func withServer(t *testing.T, s *Server, f func(t *testing.T, r *testServer)) {
	t.Helper()
	withTappedServer(t, s, new(tapListener), f)
}

// withTappedServer is withServer with a record of the server's posts.
func withTappedServer(t *testing.T, s *Server, p *tapListener, f func(t *testing.T, r *testServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := buf.Default.Out()
		l := rdmatest.Listen(t)
		r := &testServer{Server: s, t: t, tap: p, listen: l, served: make(chan error, 1)}
		p.Listener = l
		go func() { r.served <- s.Serve(p) }()
		synctest.Wait()
		f(t, r)
		require.NoError(t, s.Shutdown(t.Context()))
		assert.NoError(t, <-r.served)
		synctest.Wait()
		assert.Equal(t, before, buf.Default.Out(), "buffers lent")
		assert.Empty(t, s.conns)
		assert.Zero(t, s.memory.InUse(), "all memory was released")
		assert.Zero(t, s.counters.InUse(), "all memory of counters was released")
		assert.Zero(t, s.inlineBytes.Load(), "bytes of messages")
		assert.Zero(t, s.parties.Len())
	})
}

// A requester drives one connection to the server.
type requester struct {
	*rdmatest.Conn
	t *testing.T

	mu     sync.Mutex
	got    []serverMessage
	closed []error
}

// An serverMessage is a message that the server sent.
type serverMessage struct {
	wire.Header
	wire        []byte
	body        []byte
	invalidated rdma.STag // 0: none
}

// linux is the private data that Linux's client sends.
var linux = cmpriv.Message{RemoteInvalidation: true, SendSize: 4096, RecvSize: 4096}

func (r *testServer) dialWith(private []byte) *requester {
	r.t.Helper()
	q := &requester{t: r.t}
	c, err := r.listen.Dial(r.t.Context(), rdma.ConnConfig{
		Handler: q, PrivateData: private, RecvSize: cmpriv.MaxSize, Recvs: 1 << 20,
	})
	require.NoError(r.t, err)
	q.Conn = c
	synctest.Wait()
	return q
}

// dialFrom is dialLinux from the given host.
func (r *testServer) dialFrom(host byte) *requester {
	r.tap.from = &net.TCPAddr{IP: net.IPv4(198, 51, 100, host), Port: 1000}
	return r.dialLinux()
}

func (r *testServer) dialLinux() *requester { return r.dialWith(linux.AppendTo(nil)) }

func (q *requester) Receive(m rdma.Recv) {
	defer m.Buf.Release()
	a := serverMessage{wire: append([]byte{}, m.Buf.B...)}
	a.invalidated = m.Invalidated
	if !assert.GreaterOrEqual(q.t, len(a.wire), wire.ErrChunkLen) {
		return
	}
	a.ParseFixed(a.wire)
	if rest := a.wire[wire.FixedLen:]; a.Proc == wire.Error {
		a.Code = wire.ErrCode(binary.BigEndian.Uint32(rest))
		if a.Code == wire.ErrVers && assert.Len(q.t, a.wire, wire.ErrVersLen) {
			a.Low, a.High = binary.BigEndian.Uint32(rest[4:]), binary.BigEndian.Uint32(rest[8:])
		}
	} else {
		body, err := a.Lists.Parse(rest)
		assert.NoError(q.t, err)
		a.body = body
		assert.Empty(q.t, a.Lists.Reads, "R8166-4.3.1-1")
	}
	assert.NotZero(q.t, a.Credit, "R8166-3.3.1-2")
	assert.Contains(q.t, []wire.Proc{wire.Msg, wire.NoMsg, wire.Error}, a.Proc, "R8166-4.6.1-1, R8166-4.6.2-1")
	q.mu.Lock()
	defer q.mu.Unlock()
	q.got = append(q.got, a)
}

func (q *requester) Closed(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = append(q.closed, err)
}

// closeErrors returns the requester's Closed errors.
func (q *requester) closeErrors() []error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// sendRaw sends a message unchanged.
func (q *requester) sendRaw(parts ...[]byte) {
	q.t.Helper()
	require.NoError(q.t, q.Post(rdma.WR{Op: rdma.OpSend, Data: parts}))
}

// sendCall sends a header and a body, and fills in the fields common to all calls.
func (q *requester) sendCall(h wire.Header, body []byte) {
	q.t.Helper()
	h.Vers, h.Credit = wire.Version, 128
	q.sendRaw(h.AppendTo(nil), body)
}

// newAnswers waits until the bubble is idle, and returns the answers since the
// last time.
func (q *requester) newAnswers() []serverMessage { return takeNew(&q.mu, &q.got) }

// takeNew waits until the bubble is idle, and takes got's content.
func takeNew[T any](mu *sync.Mutex, got *[]T) []T {
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	all := *got
	*got = nil
	return all
}

// onlyAnswer is newAnswers for exactly one answer.
func (q *requester) onlyAnswer() serverMessage {
	q.t.Helper()
	got := q.newAnswers()
	require.Len(q.t, got, 1)
	require.Empty(q.t, q.closeErrors())
	return got[0]
}

// requireError expects an RDMA_ERROR.
func (q *requester) requireError(code wire.ErrCode) {
	q.t.Helper()
	a := q.onlyAnswer()
	assert.Equal(q.t, wire.Error, a.Proc)
	assert.Equal(q.t, code, a.Code)
	assert.EqualValues(q.t, testXID, a.XID, "R8166-4.5-4")
	assert.EqualValues(q.t, wire.Version, a.Vers, "R8166-4.5-5")
	assert.Zero(q.t, a.invalidated)
}

// registerSegments registers b, cut after each of the given lengths, with a handle for
// each piece.
func (q *requester) registerSegments(b []byte, access rdma.Access, lengths ...int) (c chunks.Chunk) {
	q.t.Helper()
	for _, n := range lengths {
		r, err := q.Register(b[:n:n], access)
		require.NoError(q.t, err)
		c = append(c, chunks.Segment{Handle: uint32(r.STag()), Length: uint32(n), Offset: r.TO()})
		b = b[n:]
	}
	require.Empty(q.t, b, "all of it is in a segment")
	return c
}

// readSegments makes read segments for data at a position.
func (q *requester) readSegments(position uint32, data []byte, lengths ...int) (list []chunks.ReadSegment) {
	q.t.Helper()
	if lengths == nil {
		lengths = []int{len(data)}
	}
	for _, s := range q.registerSegments(data, rdma.RemoteRead, lengths...) {
		list = append(list, chunks.ReadSegment{Position: position, Segment: s})
	}
	return list
}

// writeChunk makes a chunk with fresh memory filled with a guard byte.
func (q *requester) writeChunk(lengths ...int) (chunks.Chunk, []byte) {
	q.t.Helper()
	total := 0
	for _, n := range lengths {
		total += n
	}
	mem := make([]byte, total)
	for i := range mem {
		mem[i] = guard
	}
	return q.registerSegments(mem, rdma.RemoteWrite, lengths...), mem
}

const (
	guard   = 0xee
	testXID = 0x11223344
)

// rpcCall returns an RPC call message with the given arguments: its 40 byte
// header has AUTH_NONE.
func rpcCall(xid uint32, args string) []byte {
	b := binary.BigEndian.AppendUint32(nil, xid)
	for _, v := range []uint32{0, 2, 100003, 3, 1, 0, 0, 0, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return append(b, args...)
}

// appendSuccess appends an accepted reply's first 24 bytes.
func appendSuccess(b []byte, xid uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, xid)
	for _, v := range []uint32{1, 0, 0, 0, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// null answers every call with no results.
var null = serviceFunc(func(_ context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	rep.Head = appendSuccess(rep.Head, binary.BigEndian.Uint32(req.Msg))
	return true
})

// fixedResults answers every call with the given results: bytes, a data item if not
// nil, bytes.
func fixedResults(head string, item []byte, tail string) serviceFunc {
	return func(_ context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		rep.Head = append(appendSuccess(rep.Head, binary.BigEndian.Uint32(req.Msg)), head...)
		if item != nil {
			copy(rep.NewItem(len(item)), item)
		}
		rep.Tail = []byte(tail)
		return true
	}
}

// A requestRecorder copies the requests that it answers.
type requestRecorder struct {
	mu   sync.Mutex
	reqs []oncrpc.Request
}

func (r *requestRecorder) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := *req
	kept.Msg = append([]byte{}, req.Msg...)
	if req.Item != nil {
		kept.Item = append([]byte{}, req.Item...)
	}
	r.reqs = append(r.reqs, kept)
	return null(ctx, req, rep)
}

// onlyRequest returns the only request since the last time.
func (r *requestRecorder) onlyRequest(t *testing.T) oncrpc.Request {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(t, r.reqs, 1)
	req := r.reqs[0]
	r.reqs = nil
	return req
}

// A gate answers calls when open is closed. open must be made in the bubble.
type gate struct {
	open    chan struct{}
	mu      sync.Mutex
	serving int
}

func (g *gate) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	g.mu.Lock()
	g.serving++
	g.mu.Unlock()
	<-g.open
	return null(ctx, req, rep)
}

func (g *gate) servingCount() int {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.serving
}

// testLog returns a log that is shown if the test fails.
func testLog(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// patternBytes returns n bytes, where no two neighbors are equal.
func patternBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

func newMsg(l chunks.Lists) wire.Header { return wire.Header{XID: testXID, Proc: wire.Msg, Lists: l} }

func newNoMsg(l chunks.Lists) wire.Header {
	return wire.Header{XID: testXID, Proc: wire.NoMsg, Lists: l}
}

// onlyServerConn returns the server's end for the only connection.
func (r *testServer) onlyServerConn() *rdmatest.Conn {
	r.t.Helper()
	return r.onlyConn().rc.(*tappedConn).Conn.(*rdmatest.Conn)
}

// onlyConn returns the server's conn for the only connection.
func (r *testServer) onlyConn() (only *conn) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(r.t, r.conns, 1)
	for c := range r.conns {
		only = c
	}
	return only
}
