package rpcrdma

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A service is an oncrpc.Service made of a function.
type service func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool

func (s service) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	return s(ctx, req, rep)
}

// A rig is a server with a listener in memory.
type rig struct {
	*Server
	t      *testing.T
	tap    *tap
	listen *rdmatest.Listener
	served chan error
}

// serve runs f in a bubble with a server, and checks that no resources leak: a
// goroutine fails the bubble.
func serve(t *testing.T, s *Server, f func(t *testing.T, r *rig)) {
	t.Helper()
	serveTap(t, s, new(tap), f)
}

// serveTap is serve with a record of the server's posts.
func serveTap(t *testing.T, s *Server, p *tap, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := buf.Default.Out()
		l := rdmatest.Listen(t)
		r := &rig{Server: s, t: t, tap: p, listen: l, served: make(chan error, 1)}
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
		assert.Zero(t, s.inline.Load(), "bytes of messages")
		assert.Zero(t, s.parties.Len())
	})
}

// A requester drives one connection of the server.
type requester struct {
	*rdmatest.Conn
	t *testing.T

	mu     sync.Mutex
	got    []answer
	closed []error
}

// An answer is a message that the server sent.
type answer struct {
	wire.Header
	wire        []byte
	body        []byte
	invalidated rdma.STag // 0: none
}

// linux is the private data of Linux's client.
var linux = cmpriv.Message{RemoteInvalidation: true, SendSize: 4096, RecvSize: 4096}

func (r *rig) dial(private []byte) *requester {
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
func (r *rig) dialFrom(host byte) *requester {
	r.tap.from = &net.TCPAddr{IP: net.IPv4(198, 51, 100, host), Port: 1000}
	return r.dialLinux()
}

func (r *rig) dialLinux() *requester { return r.dial(linux.AppendTo(nil)) }

func (q *requester) Receive(m rdma.Recv) {
	defer m.Buf.Release()
	a := answer{wire: append([]byte{}, m.Buf.B...)}
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

// ended returns the requester's Closed errors.
func (q *requester) ended() []error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// send sends a message unchanged.
func (q *requester) send(parts ...[]byte) {
	q.t.Helper()
	require.NoError(q.t, q.Post(rdma.WR{Op: rdma.OpSend, Data: parts}))
}

// call sends a header and a body, and fills in the fields common to all calls.
func (q *requester) call(h wire.Header, body []byte) {
	q.t.Helper()
	h.Vers, h.Credit = wire.Version, 128
	q.send(h.AppendTo(nil), body)
}

// answers waits until the bubble is idle, and returns the answers since the
// last time.
func (q *requester) answers() []answer { return news(&q.mu, &q.got) }

// news waits until the bubble is idle, and takes the content of got.
func news[T any](mu *sync.Mutex, got *[]T) []T {
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	all := *got
	*got = nil
	return all
}

// answer is answers, for exactly one answer.
func (q *requester) answer() answer {
	q.t.Helper()
	got := q.answers()
	require.Len(q.t, got, 1)
	require.Empty(q.t, q.ended())
	return got[0]
}

// refused expects an RDMA_ERROR.
func (q *requester) refused(code wire.ErrCode) {
	q.t.Helper()
	a := q.answer()
	assert.Equal(q.t, wire.Error, a.Proc)
	assert.Equal(q.t, code, a.Code)
	assert.EqualValues(q.t, testXID, a.XID, "R8166-4.5-4")
	assert.EqualValues(q.t, wire.Version, a.Vers, "R8166-4.5-5")
	assert.Zero(q.t, a.invalidated)
}

// segments registers b, cut after each of the given lengths, with a handle for
// each piece.
func (q *requester) segments(b []byte, access rdma.Access, lengths ...int) (c chunks.Chunk) {
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

// reads makes read segments of data at a position.
func (q *requester) reads(position uint32, data []byte, lengths ...int) (list []chunks.ReadSegment) {
	q.t.Helper()
	if lengths == nil {
		lengths = []int{len(data)}
	}
	for _, s := range q.segments(data, rdma.RemoteRead, lengths...) {
		list = append(list, chunks.ReadSegment{Position: position, Segment: s})
	}
	return list
}

// writable makes a chunk of fresh memory filled with a guard byte.
func (q *requester) writable(lengths ...int) (chunks.Chunk, []byte) {
	q.t.Helper()
	total := 0
	for _, n := range lengths {
		total += n
	}
	mem := make([]byte, total)
	for i := range mem {
		mem[i] = guard
	}
	return q.segments(mem, rdma.RemoteWrite, lengths...), mem
}

const (
	guard   = 0xee
	testXID = 0x11223344
)

// rpcCall returns an RPC call message with the given arguments: the 40 bytes of
// its header have AUTH_NONE.
func rpcCall(xid uint32, args string) []byte {
	b := binary.BigEndian.AppendUint32(nil, xid)
	for _, v := range []uint32{0, 2, 100003, 3, 1, 0, 0, 0, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return append(b, args...)
}

// appendSuccess appends the first 24 bytes of an accepted reply.
func appendSuccess(b []byte, xid uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, xid)
	for _, v := range []uint32{1, 0, 0, 0, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// null answers every call with no results.
var null = service(func(_ context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	rep.Head = appendSuccess(rep.Head, binary.BigEndian.Uint32(req.Msg))
	return true
})

// results answers every call with the given results: bytes, a data item if not
// nil, bytes.
func results(head string, item []byte, tail string) service {
	return func(_ context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		rep.Head = append(appendSuccess(rep.Head, binary.BigEndian.Uint32(req.Msg)), head...)
		if item != nil {
			copy(rep.NewItem(len(item)), item)
		}
		rep.Tail = []byte(tail)
		return true
	}
}

// A recorder keeps copies of the requests that it answers.
type recorder struct {
	mu   sync.Mutex
	reqs []oncrpc.Request
}

func (r *recorder) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
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

// last returns the only request since the last time.
func (r *recorder) last(t *testing.T) oncrpc.Request {
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

func (g *gate) count() int {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.serving
}

// testLog returns a log that is shown if the test fails.
func testLog(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// repeat returns n bytes, no two neighbors of which are equal.
func repeat(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

func msg(l chunks.Lists) wire.Header { return wire.Header{XID: testXID, Proc: wire.Msg, Lists: l} }

func noMsg(l chunks.Lists) wire.Header { return wire.Header{XID: testXID, Proc: wire.NoMsg, Lists: l} }

// only returns the server's end of the only connection.
func (r *rig) only() *rdmatest.Conn {
	r.t.Helper()
	return r.onlyConn().rc.(*tappedConn).Conn.(*rdmatest.Conn)
}

// onlyConn returns the server's conn of the only connection.
func (r *rig) onlyConn() (only *conn) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(r.t, r.conns, 1)
	for c := range r.conns {
		only = c
	}
	return only
}
