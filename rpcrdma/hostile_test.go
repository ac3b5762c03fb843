package rpcrdma

import (
	"bytes"
	"math"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	rpcwire "github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostileMessages returns messages with false lists. None names existing
// memory.
func hostileMessages(t testing.TB) map[string][]byte {
	lie := chunks.Segment{Handle: 0xbad, Length: math.MaxUint32, Offset: 1 << 40}
	one := chunks.Segment{Handle: 0xbad, Length: 1}
	reads := func(n int, step uint32, s chunks.Segment) (l chunks.Lists) {
		for i := range n {
			l.Reads = append(l.Reads, chunks.ReadSegment{Position: 40 + uint32(i)*step, Segment: s})
		}
		return l
	}
	with := func(h rpcwire.Header, body []byte) []byte {
		h.Vers, h.Credit = rpcwire.Version, math.MaxUint32
		return append(h.AppendTo(nil), body...)
	}
	raw := func(lists ...[]byte) []byte {
		h := rpcwire.Header{XID: testXID, Vers: rpcwire.Version}
		return append(h.AppendTo(nil)[:rpcwire.FixedLen], bytes.Join(lists, nil)...)
	}
	readSegment := []byte{3: 1, 7: 40, 11: 1, 15: 1, 23: 0}
	emptyChunk := []byte{3: 1, 7: 0}
	body := rpcCall(testXID, string(make([]byte, 64)))
	all := map[string][]byte{
		"a length of 2^32-1":                 with(newMsg(reads(1, 0, lie)), body),
		"lengths beyond 2^32":                with(newMsg(reads(2, 0, lie)), body),
		"lengths beyond 2^42":                with(newMsg(reads(chunks.MaxSegments, 0, lie)), body),
		"chunks inside one another":          with(newMsg(reads(10, 4, chunks.Segment{Length: 100})), body),
		"a segment past the last offset":     with(newMsg(reads(1, 0, chunks.Segment{Length: 2, Offset: math.MaxUint64})), body),
		"a length and an offset of the most": with(newMsg(reads(1, 0, chunks.Segment{Length: math.MaxUint32, Offset: math.MaxUint64})), body),
		"a position beyond the message":      with(newMsg(reads(2, 1<<20, one)), body),
		"the largest position":               with(newMsg(reads(2, math.MaxUint32-43, one)), body),
		"a message of 2^32-1 bytes":          with(newNoMsg(chunks.Lists{Reads: []chunks.ReadSegment{{Segment: lie}}}), nil),
		"a list with one segment too many":   with(newNoMsg(chunks.Lists{Reads: make([]chunks.ReadSegment, chunks.MaxSegments+1)}), nil),
		"a list without an end":              raw(bytes.Repeat(readSegment, 2000)),
		"Write chunks without an end":        raw(make([]byte, 4), bytes.Repeat(emptyChunk, 6000)),
	}
	for name, lists := range map[string]string{
		"2^32-1 segments to write":     "00000000 00000001 ffffffff",
		"2^32-1 segments for a reply":  "00000000 00000000 00000001 ffffffff",
		"2^31 segments, 2^35 bytes":    "00000000 00000001 80000000",
		"2^28 segments, 2^32 bytes":    "00000000 00000001 10000000",
		"more segments than present":   "00000000 00000001 00000400",
		"an item present 2^32-1 times": "ffffffff",
		"a truncated read segment":     "00000001 00000000 00000001",
	} {
		all[name] = raw(wiretest.Bytes(t, lists), make([]byte, 40))
	}
	return all
}

// TestHostileLists checks that any hostile lists cost their sender one
// ERR_CHUNK, and affect no other peer; nothing is read, and no memory is lent
// (R8166-4.5-2, R8166-4.5.2-1, R8166-8.1.4-1, R8267-6.4.2-3).
func TestHostileLists(t *testing.T) {
	for name, wire := range hostileMessages(t) {
		t.Run(name, func(t *testing.T) {
			p := new(tapListener)
			withTappedServer(t, &Server{Handler: null, Inline: 64 << 10}, p, func(t *testing.T, r *testServer) {
				q, other := r.dialFrom(1), r.dialFrom(2)
				for range 3 {
					q.sendRaw(wire)
					q.requireError(rpcwire.ErrChunk)
					other.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
					assert.Equal(t, rpcwire.Msg, other.onlyAnswer().Proc)
				}
				for _, ops := range p.posts {
					assert.Len(t, ops, 1, "a Send")
				}
			})
		})
	}
}

// TestHostileOffers checks that, however large a peer's offer for a reply is,
// the server reserves no more than the longest reply.
func TestHostileOffers(t *testing.T) {
	huge := make(chunks.Chunk, chunks.MaxSegments)
	for i := range huge {
		huge[i] = chunks.Segment{Handle: uint32(i), Length: math.MaxUint32}
	}
	var l chunks.Lists
	l.AddWrite(huge)
	l.Reply, l.HasReply = huge, true
	g := new(gate)
	withServer(t, &Server{Handler: g, Inline: 64 << 10}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		private := cmpriv.Message{SendSize: 64 << 10, RecvSize: 64 << 10}.AppendTo(nil)
		q, other := r.dialWith(private), r.dialFrom(2)
		calls := int(r.cfg.partyShare() / (bufferSize(r.cfg.maxPayload) + bufferSize(64<<10+r.cfg.largestMessage())))
		for range 128 {
			q.sendCall(newMsg(l), rpcCall(testXID, ""))
		}
		assert.Equal(t, calls, g.servingCount(), "as many as the share allows")
		assert.LessOrEqual(t, r.inlineBytes.Load(), r.cfg.maxInline)
		other.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		assert.Equal(t, calls+1, g.servingCount(), "another peer is served")
		close(g.open)
		assert.Len(t, other.newAnswers(), 1)
		assert.Len(t, q.newAnswers(), 128)
	})
}

// TestHostileFlood sends as many calls, the most expensive ones, as a
// connection may send, without any being answered. It checks that they take as
// much memory as is counted for them.
func TestHostileFlood(t *testing.T) {
	const maxInline = 32 << 20
	g := new(gate)
	withServer(t, &Server{Handler: g, Inline: 64 << 10, Credits: 512, MaxInline: maxInline}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var l chunks.Lists
		l.Reply, l.HasReply = make(chunks.Chunk, chunks.MaxSegments), true
		l.AddWrite(make(chunks.Chunk, chunks.MaxSegments))
		body := rpcCall(testXID, string(make([]byte, 16<<10)))
		private := cmpriv.Message{SendSize: 64 << 10, RecvSize: 64 << 10}.AppendTo(nil)
		other := r.dialFrom(9)
		for host := range byte(4) {
			r.tap.from = nil
			q := r.dialWith(private)
			for range 400 {
				q.sendCall(newMsg(l), body)
				synctest.Wait()
				assert.LessOrEqual(t, r.inlineBytes.Load(), int64(maxInline))
				if len(q.closeErrors()) > 0 {
					break
				}
			}
			require.Len(t, q.closeErrors(), 1, host)
			assert.ErrorIs(t, q.closeErrors()[0], errOverLimit)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		// Each was ended with its memory counted, and its calls still run.
		assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(5*maxInline))
		assert.Less(t, buf.Default.Out(), 4*400)
		other.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		close(g.open)
		assert.Equal(t, rpcwire.Msg, other.onlyAnswer().Proc)
	})
}

// TestSegmentRepeated checks that a message may name the same memory as often
// as it has space for, each time as a chunk.
func TestSegmentRepeated(t *testing.T) {
	var rec requestRecorder
	withServer(t, &Server{Handler: &rec, Inline: 64 << 10}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		l := chunks.Lists{Reads: q.readSegments(40, []byte("four"))}
		for len(l.Reads) < chunks.MaxSegments {
			l.Reads = append(l.Reads, l.Reads[0])
		}
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		assert.Equal(t, rpcwire.Msg, q.onlyAnswer().Proc)
		assert.Equal(t, bytes.Repeat([]byte("four"), chunks.MaxSegments), rec.onlyRequest(t).Item)

		l.Reads[0] = q.readSegments(40, []byte("four"))[0] // the reply has invalidated the first
		for i := range l.Reads {
			l.Reads[i] = l.Reads[0]
			l.Reads[i].Position, l.Reads[i].Length = uint32(40+4*i), 1
		}
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		assert.Equal(t, rpcwire.Msg, q.onlyAnswer().Proc)
		req := rec.onlyRequest(t)
		assert.Equal(t, bytes.Repeat([]byte("f\x00\x00\x00"), chunks.MaxSegments), req.Msg[40:])
		assert.Len(t, req.Places, chunks.MaxSegments)
	})
}

// TestXIDRepeated checks that two calls with one XID are two calls.
func TestXIDRepeated(t *testing.T) {
	g := new(gate)
	withServer(t, &Server{Handler: g}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		q := r.dialLinux()
		for range 3 {
			q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		}
		assert.Equal(t, 3, g.servingCount())
		close(g.open)
		assert.Len(t, q.newAnswers(), 3)
	})
}
