package stream

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

func (r *testListener) dialWith(private []byte) *requester {
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

func (r *testListener) dialLinux() *requester { return r.dialWith(linux.AppendTo(nil)) }

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
func (q *requester) newAnswers() []serverMessage {
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.got
	q.got = nil
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

// assertUntouched checks that nothing was written.
func assertUntouched(t *testing.T, mem []byte) {
	t.Helper()
	assert.Equal(t, len(mem), bytes.Count(mem, []byte{guard}), "%x", mem)
}

func newNoMsg(l chunks.Lists) wire.Header {
	return wire.Header{XID: testXID, Proc: wire.NoMsg, Lists: l}
}
