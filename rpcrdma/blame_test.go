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
		l.Reads = q.reads(40, repeat(100))
		l.Reads[0].Length++
		return l
	},
	"in front of it": func(q *requester) (l chunks.Lists) {
		l.Reads = q.reads(40, repeat(100))
		l.Reads[0].Offset--
		return l
	},
	"in the message's chunk": func(q *requester) (l chunks.Lists) {
		l.Reads = q.reads(0, rpcCall(testXID, ""))
		l.Reads[0].Length += 4
		return l
	},
	"writable, to be read": func(q *requester) (l chunks.Lists) {
		c, _ := q.writable(100)
		l.Reads = []chunks.ReadSegment{{Position: 40, Segment: c[0]}}
		return l
	},
	"unknown STag to write": func(*requester) (l chunks.Lists) {
		l.AddWrite(chunks.Chunk{{Handle: 0xbad, Length: 4}})
		return l
	},
	"readable, to be written": func(q *requester) (l chunks.Lists) {
		l.AddWrite(chunks.Chunk{q.reads(0, repeat(4))[0].Segment})
		return l
	},
	"short, to be written": func(q *requester) (l chunks.Lists) {
		c, _ := q.writable(3)
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
			serve(t, &Server{Handler: results("", []byte("item"), "")}, func(t *testing.T, r *rig) {
				ends := func() {
					q := r.dialFrom(1)
					for xid := range uint32(3) {
						q.call(wire.Header{XID: xid, Proc: wire.Msg}, rpcCall(xid, ""))
					}
					l := offer(q) // last: a later call might arrive too late, or be read into its memory
					h := msg(l)
					if len(l.Reads) > 0 && l.Reads[0].Position == 0 {
						h.Proc = wire.NoMsg
					}
					q.call(h, rpcCall(testXID, ""))
					q.answers()
					require.Len(t, q.ended(), 1)
					assert.ErrorIs(t, q.ended()[0], rdmatest.ErrAccess)
				}
				other := r.dialFrom(2)
				ends()
				again := r.dialFrom(1)
				for xid := range uint32(3) { // including the other calls under way
					again.call(wire.Header{XID: xid, Proc: wire.Msg}, rpcCall(xid, ""))
					assert.Equal(t, wire.Msg, again.answer().Proc)
				}
				other.call(msg(chunks.Lists{}), rpcCall(testXID, ""))
				assert.Equal(t, wire.Msg, other.answer().Proc, "another host")
				again.call(msg(chunks.Lists{}), rpcCall(testXID, ""))
				again.refused(wire.ErrChunk)
				again.call(msg(chunks.Lists{}), rpcCall(testXID, ""))
				assert.Equal(t, wire.Msg, again.answer().Proc, "the XID may denote another call now")

				ends()
				time.Sleep(blameTime + time.Second)
				again = r.dialFrom(1)
				again.call(msg(chunks.Lists{}), rpcCall(testXID, ""))
				assert.Equal(t, wire.Msg, again.answer().Proc, "so late it cannot be the same")
			})
		})
	}
}

// TestBlameNobody checks that no call is blamed if a connection ends in another
// way.
func TestBlameNobody(t *testing.T) {
	serve(t, &Server{Handler: results("", []byte("item"), "")}, func(t *testing.T, r *rig) {
		q := r.dialFrom(1)
		var l chunks.Lists
		c, _ := q.writable(100)
		l.AddWrite(c)
		l.Reads = q.reads(40, repeat(100))
		q.CutAfter(1) // not the response
		q.call(msg(l), rpcCall(testXID, ""))
		q.answers()
		require.Len(t, q.ended(), 1)
		assert.Empty(t, r.blames.all)
		assert.Zero(t, r.blames.n.Load())
	})
}

// TestBlamesBounded checks that the number of blames is bounded, and that the
// newest stay.
func TestBlamesBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b blames
		host := addrPort((&tap{}).from)
		for xid := range uint32(10 * maxBlames) {
			b.note(host.Addr(), xid)
			b.note(host.Addr(), xid)
		}
		assert.Len(t, b.all, maxBlames)
		assert.LessOrEqual(t, cap(b.all), 2*maxBlames)
		assert.False(t, b.remove(host.Addr(), 9*maxBlames-1))
		assert.True(t, b.remove(host.Addr(), 9*maxBlames))
		time.Sleep(blameTime + 1)
		assert.False(t, b.remove(host.Addr(), 10*maxBlames-1))
		assert.Empty(t, b.all)
	})
}

// TestUnreachableButEmpty checks that a segment of no bytes is not accessed,
// for any handle.
func TestUnreachableButEmpty(t *testing.T) {
	serve(t, &Server{Handler: results("", []byte("item"), "")}, func(t *testing.T, r *rig) {
		q := r.dialLinux()
		l := chunks.Lists{Reads: q.reads(40, repeat(100))}
		bad := chunks.Segment{Handle: 0xbad, Offset: 0xffffffffffffffff}
		l.Reads = append(l.Reads, chunks.ReadSegment{Position: 40, Segment: bad})
		c, _ := q.writable(100)
		l.AddWrite(append(chunks.Chunk{bad}, c...))
		l.Reply, l.HasReply = chunks.Chunk{bad, bad}, true
		q.call(msg(l), rpcCall(testXID, ""))
		a := q.answer()
		assert.Equal(t, wire.Msg, a.Proc)
		assert.Equal(t, []uint32{0, 4}, lengths(a.Lists.Write(0)))
		assert.Equal(t, rdma.STag(0), a.invalidated)
	})
}
