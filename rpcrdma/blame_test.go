package rpcrdma

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unreachableChunks are chunks that end the connection.
var unreachableChunks = map[string]func(q *requester) chunks.Lists{
	"unknown STag to read": func(*requester) (l chunks.Lists) {
		l.Reads = []chunks.ReadSegment{{Position: 40, Segment: chunks.Segment{Handle: 0xbad, Length: 4}}}
		return l
	},
	"past the end of what is there": func(q *requester) (l chunks.Lists) {
		l.Reads = q.readSegments(40, patternBytes(100))
		l.Reads[0].Length++
		return l
	},
	"in front of it": func(q *requester) (l chunks.Lists) {
		l.Reads = q.readSegments(40, patternBytes(100))
		l.Reads[0].Offset--
		return l
	},
	"in the message's chunk": func(q *requester) (l chunks.Lists) {
		l.Reads = q.readSegments(0, rpcCall(testXID, ""))
		l.Reads[0].Length += 4
		return l
	},
	"writable, to be read": func(q *requester) (l chunks.Lists) {
		c, _ := q.writeChunk(100)
		l.Reads = []chunks.ReadSegment{{Position: 40, Segment: c[0]}}
		return l
	},
	"unknown STag to write": func(*requester) (l chunks.Lists) {
		l.AddWrite(chunks.Chunk{{Handle: 0xbad, Length: 4}})
		return l
	},
	"readable, to be written": func(q *requester) (l chunks.Lists) {
		l.AddWrite(chunks.Chunk{q.readSegments(0, patternBytes(4))[0].Segment})
		return l
	},
	"short, to be written": func(q *requester) (l chunks.Lists) {
		c, _ := q.writeChunk(3)
		c[0].Length = 4
		l.AddWrite(c)
		return l
	},
}

// TestBlame checks that a call that ended a connection is answered with
// ERR_CHUNK, once, when it is repeated; the other calls that were lost are
// served, and other peers notice nothing (R8166-4.5.3-2).
func TestBlame(t *testing.T) {
	for name, offer := range unreachableChunks {
		t.Run(name, func(t *testing.T) {
			withServer(t, &Server{Handler: fixedResults("", []byte("item"), "")}, func(t *testing.T, r *testServer) {
				ends := func() {
					q := r.dialFrom(1)
					for xid := range uint32(3) {
						q.sendCall(wire.Header{XID: xid, Proc: wire.Msg}, rpcCall(xid, ""))
					}
					l := offer(q) // last: a later call might arrive too late, or be read into its memory
					h := newMsg(l)
					if len(l.Reads) > 0 && l.Reads[0].Position == 0 {
						h.Proc = wire.NoMsg
					}
					q.sendCall(h, rpcCall(testXID, ""))
					q.newAnswers()
					require.Len(t, q.closeErrors(), 1)
					assert.ErrorIs(t, q.closeErrors()[0], rdmatest.ErrAccess)
				}
				other := r.dialFrom(2)
				ends()
				again := r.dialFrom(1)
				for xid := range uint32(3) { // including the other calls in flight
					again.sendCall(wire.Header{XID: xid, Proc: wire.Msg}, rpcCall(xid, ""))
					assert.Equal(t, wire.Msg, again.onlyAnswer().Proc)
				}
				other.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
				assert.Equal(t, wire.Msg, other.onlyAnswer().Proc, "another host")
				again.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
				again.requireError(wire.ErrChunk)
				again.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
				assert.Equal(t, wire.Msg, again.onlyAnswer().Proc, "the XID may denote another call now")

				ends()
				time.Sleep(failedCallTime + time.Second)
				again = r.dialFrom(1)
				again.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
				assert.Equal(t, wire.Msg, again.onlyAnswer().Proc, "so late it cannot be the same")
			})
		})
	}
}

// TestBlameNobody checks that no failed call is recorded if a connection ends
// in another way.
func TestBlameNobody(t *testing.T) {
	withServer(t, &Server{Handler: fixedResults("", []byte("item"), "")}, func(t *testing.T, r *testServer) {
		q := r.dialFrom(1)
		var l chunks.Lists
		c, _ := q.writeChunk(100)
		l.AddWrite(c)
		l.Reads = q.readSegments(40, patternBytes(100))
		q.CutAfter(1) // not the response
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		q.newAnswers()
		require.Len(t, q.closeErrors(), 1)
		assert.Empty(t, r.failedCalls.calls)
		assert.Zero(t, r.failedCalls.count.Load())
	})
}

// TestBlamesBounded checks that the number of recorded calls is bounded, and
// that the newest stay.
func TestBlamesBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b failedCalls
		host := addrPort((&tapListener{}).from)
		for xid := range uint32(10 * maxFailedCalls) {
			b.add(host.Addr(), xid)
			b.add(host.Addr(), xid)
		}
		assert.Len(t, b.calls, maxFailedCalls)
		assert.LessOrEqual(t, cap(b.calls), 2*maxFailedCalls)
		assert.False(t, b.removeCall(host.Addr(), 9*maxFailedCalls-1))
		assert.True(t, b.removeCall(host.Addr(), 9*maxFailedCalls))
		time.Sleep(failedCallTime + 1)
		assert.False(t, b.removeCall(host.Addr(), 10*maxFailedCalls-1))
		assert.Empty(t, b.calls)
	})
}

// TestUnreachableButEmpty checks that an empty segment is not accessed, for any
// handle.
func TestUnreachableButEmpty(t *testing.T) {
	withServer(t, &Server{Handler: fixedResults("", []byte("item"), "")}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		l := chunks.Lists{Reads: q.readSegments(40, patternBytes(100))}
		bad := chunks.Segment{Handle: 0xbad, Offset: 0xffffffffffffffff}
		l.Reads = append(l.Reads, chunks.ReadSegment{Position: 40, Segment: bad})
		c, _ := q.writeChunk(100)
		l.AddWrite(append(chunks.Chunk{bad}, c...))
		l.Reply, l.HasReply = chunks.Chunk{bad, bad}, true
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		a := q.onlyAnswer()
		assert.Equal(t, wire.Msg, a.Proc)
		assert.Equal(t, []uint32{0, 4}, segmentLengths(a.Lists.Write(0)))
		assert.Equal(t, rdma.STag(0), a.invalidated)
	})
}
