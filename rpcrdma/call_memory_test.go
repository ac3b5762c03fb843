package rpcrdma

import (
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newTightServer returns a server whose memory holds one largest call, and four large
// calls.
func newTightServer(h *gate) *Server {
	return &Server{Handler: h, MaxPayload: large, MaxMemory: 4*(large+headSlack) + large}
}

// large is a length, in bytes, that a tight server takes.
const large = 160 << 10

func (q *requester) writeLarge(xid uint32) {
	q.t.Helper()
	q.sendCall(wire.Header{XID: xid, Proc: wire.Msg, Lists: chunks.Lists{Reads: q.readSegments(40, make([]byte, large))}}, rpcCall(xid, ""))
}

// TestMemoryBounded checks that calls with large chunks wait for memory, on
// their own connection and on others, and that small calls overtake them.
func TestMemoryBounded(t *testing.T) {
	g := new(gate)
	withServer(t, newTightServer(g), func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		a, b := r.dialLinux(), r.dialLinux()
		for i := range uint32(10) {
			a.writeLarge(i)
			b.writeLarge(i)
		}
		assert.Equal(t, 4, g.servingCount(), "as many as memory allows")
		lent := buf.Default.Out()
		a.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		assert.Equal(t, 5, g.servingCount(), "a small call does not wait")
		assert.LessOrEqual(t, buf.Default.Out(), lent+2, "its message and its reply")
		c := r.dialLinux()
		c.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		assert.Equal(t, 6, g.servingCount(), "none of another connection either")

		close(g.open)
		assert.Len(t, a.newAnswers(), 11)
		assert.Len(t, b.newAnswers(), 10)
		assert.Len(t, c.newAnswers(), 1)
	})
}

// TestMemoryOfPositionZero checks that a message in a chunk counts like a data
// item.
func TestMemoryOfPositionZero(t *testing.T) {
	g := new(gate)
	withServer(t, newTightServer(g), func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		q := r.dialLinux()
		long := rpcCall(testXID, string(make([]byte, large)))
		for range 6 {
			q.sendCall(newNoMsg(chunks.Lists{Reads: q.readSegments(0, long)}), nil)
		}
		assert.Equal(t, 4, g.servingCount())
		close(g.open)
		assert.Len(t, q.newAnswers(), 6)
	})
}

// TestMemoryOfArguments checks that the arguments' memory is free before the
// reply is sent, because a peer may take the reply slowly.
func TestMemoryOfArguments(t *testing.T) {
	var p tapListener
	withTappedServer(t, &Server{Handler: null}, &p, func(t *testing.T, r *testServer) {
		lent := buf.Default.Out()
		p.onSend = func() {
			assert.Equal(t, lent+1, buf.Default.Out(), "only the reply's")
			assert.Zero(t, r.memory.InUse())
		}
		q := r.dialLinux()
		q.writeLarge(testXID)
		q.onlyAnswer()
	})
}

// TestMemoryOfReplies checks that the memory that a reply may need is counted
// too, but not more than the server would send.
func TestMemoryOfReplies(t *testing.T) {
	g := new(gate)
	withServer(t, newTightServer(g), func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		q := r.dialLinux()
		var l chunks.Lists
		l.AddWrite(chunks.Chunk{{Handle: 1, Length: 0xffffffff}})
		l.Reply, l.HasReply = chunks.Chunk{{Handle: 2, Length: 0xffffffff}}, true
		for range 3 {
			q.sendCall(newMsg(l), rpcCall(testXID, ""))
		}
		assert.Equal(t, 2, g.servingCount(), "of payload and message")
		close(g.open)
		assert.Len(t, q.newAnswers(), 3)
	})
}

// TestMemoryOfSealedReplies checks that a reply that may be signed or encrypted counts twice: its
// data item has its own memory, and goes into the Reply chunk. Before a call is read, its flavour
// is unknown.
func TestMemoryOfSealedReplies(t *testing.T) {
	for _, tt := range []struct {
		flavor uint32
		long   bool
		calls  int
	}{
		{rpcmsg.AuthSys, false, 4},
		{rpcmsg.AuthGSS, false, 2},
		{rpcmsg.AuthGSS, true, 1},
	} {
		g := new(gate)
		withServer(t, newTightServer(g), func(t *testing.T, r *testServer) {
			g.open = make(chan struct{})
			q := r.dialLinux()
			for range 6 {
				l := chunks.Lists{HasReply: true}
				l.Reply, _ = q.writeChunk(large)
				body := rpcCall(testXID, "")
				binary.BigEndian.PutUint32(body[24:], tt.flavor)
				if tt.long {
					l.Reads = q.readSegments(0, append(body, make([]byte, large-len(body))...))
					q.sendCall(newNoMsg(l), nil)
				} else {
					q.sendCall(newMsg(l), body)
				}
			}
			assert.Equal(t, tt.calls, g.servingCount(), "%+v", tt)
			close(g.open)
			assert.Len(t, q.newAnswers(), 6)
		})
	}
}

// TestMemoryOfLostConnection checks that a connection that ends while its calls
// wait leaks no call.
func TestMemoryOfLostConnection(t *testing.T) {
	g := new(gate)
	withServer(t, newTightServer(g), func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		a, b := r.dialLinux(), r.dialLinux()
		for i := range uint32(4) {
			a.writeLarge(i)
		}
		require.Equal(t, 4, g.servingCount())
		for i := range uint32(5) {
			b.writeLarge(i)
		}
		b.Abort(errors.New("gone"))
		synctest.Wait()
		r.mu.Lock()
		assert.Len(t, r.conns, 1, "the other is forgotten")
		r.mu.Unlock()
		a.writeLarge(4)
		close(g.open)
		assert.Len(t, a.newAnswers(), 5)
	})
}

// TestMemoryOfLargestCall checks that, with the least memory that a server
// takes, the largest call gets its party's whole share, although its buffers
// are larger.
func TestMemoryOfLargestCall(t *testing.T) {
	cfg := config{maxPayload: 1 << 20}
	least := cfg.largestCall()
	assert.EqualValues(t, 4*(1<<20+64<<10)+1<<20, least)
	withServer(t, &Server{Handler: null, MaxMemory: least}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		long := r.cfg.largestMessage()
		largest := call{conn: r.onlyConn()}
		h := &largest.hdr
		h.Proc = wire.NoMsg
		h.Lists.Reads = []chunks.ReadSegment{
			{Segment: chunks.Segment{Length: uint32(long - 8)}},
			{Position: 100, Segment: chunks.Segment{Length: 4}},
			{Position: 200, Segment: chunks.Segment{Length: 4}},
		}
		h.Lists.AddWrite(chunks.Chunk{{Handle: 1, Length: 0xffffffff}})
		h.Lists.Reply, h.Lists.HasReply = chunks.Chunk{{Handle: 2, Length: 0xffffffff}}, true
		require.NoError(t, largest.makePlan(nil)) // it may be sealed, which is not known yet
		p := &largest.plan
		assert.InDelta(t, least, p.msgLen+p.wholeLen+p.maxReply+p.maxReply+p.itemTotal, 8)
		assert.Greater(t, p.pullNeed+p.replyNeed, least)
		assert.Equal(t, least, largest.memoryNeed())

		l := chunks.Lists{Reads: q.readSegments(40, make([]byte, 1<<20))}
		l.AddWrite(chunks.Chunk{{Handle: 1, Length: 0xffffffff}})
		l.Reply, l.HasReply = chunks.Chunk{{Handle: 2, Length: 0xffffffff}}, true
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		q.onlyAnswer()
	})
}
