package rpcrdma

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// failOnCall fails the test if a call reaches the handler.
func failOnCall(t *testing.T) serviceFunc {
	return func(context.Context, *oncrpc.Request, *oncrpc.Reply) bool {
		t.Error("a call was served")
		return false
	}
}

// TestErrVers checks that a header with version 2 or later is answered with its
// own XID and version, and with the range (R8166-4.5-2, R8166-4.5-4,
// R8166-4.5-5, R8166-4.5-6, R8166-4.5.1-1, R8166-7-1).
func TestErrVers(t *testing.T) {
	withServer(t, &Server{Handler: failOnCall(t), Credits: 32}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		for _, vers := range []uint32{2, 0, 0xffffffff} {
			h := wire.Header{XID: 0x01020304, Vers: vers, Credit: 32}
			q.sendRaw(h.AppendTo(nil), make([]byte, 100))
			a := q.onlyAnswer()
			assert.Equal(t, wire.Header{
				XID: 0x01020304, Vers: vers, Credit: 32, Proc: wire.Error, Code: wire.ErrVers, Low: 1, High: 1,
			}, a.Header)
			if vers == 2 {
				assert.Equal(t, wiretest.Hex(t, "testdata/err-vers.hex"), a.wire)
			}
		}
	})
}

// TestErrChunk checks that any fault in a version 1 header or its chunks is
// ERR_CHUNK; the connection lives, and nothing is read (R8166-4.5.2-1).
func TestErrChunk(t *testing.T) {
	body := rpcCall(testXID, "args")
	seg := func(pos, n uint32) []chunks.ReadSegment {
		return []chunks.ReadSegment{{Position: pos, Segment: chunks.Segment{Handle: 1, Length: n}}}
	}
	many := func(list ...[]chunks.ReadSegment) (l chunks.Lists) {
		for _, s := range list {
			l.Reads = append(l.Reads, s...)
		}
		return l
	}
	for _, tt := range []struct {
		name string
		hdr  wire.Header
		body []byte
	}{
		{"R8166-4.6.1-2 RDMA_MSGP", wire.Header{XID: testXID, Proc: wire.MsgP}, make([]byte, 100)},
		{"R8166-4.2.4-1 unknown procedure", wire.Header{XID: testXID, Proc: 5}, make([]byte, 100)},
		{"R8166-4.2.4-2 RDMA_NOMSG, all absent", newNoMsg(chunks.Lists{}), nil},
		{"R8166-4.2.4-2 RDMA_NOMSG, only a Reply chunk", newNoMsg(chunks.Lists{HasReply: true}), nil},
		{"R8166-4.2.4-2 RDMA_NOMSG, no Position Zero", newNoMsg(many(seg(44, 100))), nil},
		{"R8166-4.2.1-1 other XID", newMsg(chunks.Lists{}), rpcCall(testXID+1, "args")},
		{"R8166-4.2.1-1 no RPC message", newMsg(chunks.Lists{}), nil},
		{"R8166-4.2.1-1 half an XID", newMsg(chunks.Lists{}), body[:3]},
		{"R8166-4.2.1-1 Position Zero of no bytes", newNoMsg(many(seg(0, 0))), nil},
		{"RDMA_MSG and Position Zero", newMsg(many(seg(0, 100))), body},
		{"R8166-3.4.5-2 position 2", newMsg(many(seg(2, 100))), body},
		{"R8166-3.4.5-2 position 45", newMsg(many(seg(45, 100))), body},
		{"position beyond the message", newMsg(many(seg(48, 100))), body},
		{"position far beyond the message", newMsg(many(seg(0xfffffffc, 100))), body},
		{"position inside another chunk", newMsg(many(seg(40, 100), seg(52, 100))), body},
		{"R8166-6.1-2 position in the header of the RPC message", newMsg(many(seg(36, 100))), body},
		{"R8166-6.1-2 and nothing else inline", newMsg(many(seg(8, 100))), body[:8]},
		{"R8166-6.1-2 the same beside Position Zero", newNoMsg(many(seg(0, 8), seg(8, 100))), nil},
		{"R8166-8.1.4-1 chunk of 4 GiB", newMsg(many(seg(44, 0xffffffff))), body},
		{"R8166-3.4.4-2 chunk of more than 4 GiB", newMsg(many(seg(44, 0xffffffff), seg(44, 2))), body},
		{"chunk of a little too much", newMsg(many(seg(44, defaultMaxPayload+headSlack-43))), body},
		{"Position Zero of 4 GiB", newNoMsg(many(seg(0, 0xffffffff))), nil},
		{"chunks of too much together", newMsg(many(seg(40, 1<<19), seg(40+1<<19, 1<<19), seg(40+1<<20, 1<<19))), body},
		{"segment past the last offset", newMsg(chunks.Lists{Reads: []chunks.ReadSegment{{
			Position: 44, Segment: chunks.Segment{Length: 2, Offset: 0xffffffffffffffff},
		}}}), body},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p tapListener
			withTappedServer(t, &Server{Handler: failOnCall(t)}, &p, func(t *testing.T, r *testServer) {
				q := r.dialLinux()
				q.sendCall(tt.hdr, tt.body)
				q.requireError(wire.ErrChunk)
				assert.Equal(t, [][]rdma.Op{{rdma.OpSend}}, p.posts)
			})
		})
	}
}

// TestNoRoomForHeader checks that a header whose lists leave no space for any
// reply is rejected before the call is served.
func TestNoRoomForHeader(t *testing.T) {
	withServer(t, &Server{Handler: failOnCall(t)}, func(t *testing.T, r *testServer) {
		q := r.dialWith(nil) // 1024 bytes for replies
		var l chunks.Lists
		l.AddWrite(make(chunks.Chunk, 63))
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		q.requireError(wire.ErrChunk)
	})
}

// TestXIDOfPositionZero checks that the XID is compared too if the message had
// to be read first (R8166-4.2.1-1, R8166-4.2.1-2).
func TestXIDOfPositionZero(t *testing.T) {
	withServer(t, &Server{Handler: failOnCall(t)}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		q.sendCall(newNoMsg(chunks.Lists{Reads: q.readSegments(0, rpcCall(testXID+1, ""))}), nil)
		q.requireError(wire.ErrChunk)
		q.sendCall(newNoMsg(chunks.Lists{Reads: q.readSegments(0, []byte{1, 2, 3})}), nil)
		q.requireError(wire.ErrChunk)
	})
}

// TestHostileCounts sends hostile lists: a count 2^32-1, and more segments than
// the limits allow.
func TestHostileCounts(t *testing.T) {
	withServer(t, &Server{Handler: failOnCall(t), Inline: 65536}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		h := wire.Header{XID: testXID, Vers: wire.Version}
		fixed := h.AppendTo(nil)[:wire.FixedLen]
		for _, lists := range []string{
			"00000000 00000001 ffffffff",
			"00000000 00000000 00000001 ffffffff",
			"00000001 ffffffff ffffffff ffffffff ffffffff ffffffff",
		} {
			q.sendRaw(fixed, wiretest.Bytes(t, lists), make([]byte, 200))
			q.requireError(wire.ErrChunk)
		}
		endless := chunks.Lists{Reads: make([]chunks.ReadSegment, chunks.MaxSegments+1)}
		q.sendCall(newNoMsg(endless), nil)
		q.requireError(wire.ErrChunk)
	})
}

// TestReadFails checks that a bad STag makes the provider end the connection;
// the call is not served, and leaks nothing.
func TestReadFails(t *testing.T) {
	withServer(t, &Server{Handler: failOnCall(t)}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		good := q.readSegments(40, patternBytes(100))
		bad := chunks.ReadSegment{Position: 40, Segment: chunks.Segment{Handle: 0xbad, Length: 4}}
		q.sendCall(newMsg(chunks.Lists{Reads: append(good, bad)}), rpcCall(testXID, ""))
		assert.Empty(t, q.newAnswers())
		require.Len(t, q.closeErrors(), 1)
		assert.ErrorIs(t, q.closeErrors()[0], rdmatest.ErrAccess)
	})
}

// TestWriteFails checks the same for a Write that the peer's memory does not
// take.
func TestWriteFails(t *testing.T) {
	withServer(t, &Server{Handler: fixedResults("", []byte("item"), "")}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		var l chunks.Lists
		l.AddWrite(chunks.Chunk{{Handle: 0xbad, Length: 4}})
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		assert.Empty(t, q.newAnswers())
		require.Len(t, q.closeErrors(), 1)
		assert.ErrorIs(t, q.closeErrors()[0], rdmatest.ErrAccess)
	})
}

// TestPostFails checks that a connection is closed if a reply, an error or an
// RDMA Read cannot be posted (R8166-4.5.4-3).
func TestPostFails(t *testing.T) {
	for name, h := range map[string]wire.Header{
		"reply": newMsg(chunks.Lists{}),
		"error": newNoMsg(chunks.Lists{}),
		"read":  newMsg(chunks.Lists{Reads: []chunks.ReadSegment{{Position: 40, Segment: chunks.Segment{Length: 8}}}}),
	} {
		t.Run(name, func(t *testing.T) {
			p := tapListener{failPost: errors.New("no more work")}
			withTappedServer(t, &Server{Handler: null}, &p, func(t *testing.T, r *testServer) {
				q := r.dialLinux()
				q.sendCall(h, rpcCall(testXID, ""))
				assert.Empty(t, q.newAnswers())
				require.Len(t, q.closeErrors(), 1)
				assert.ErrorIs(t, q.closeErrors()[0], p.failPost)
			})
		})
	}
}

// TestReadsBeforeReply checks that a call's chunks are read before the call is
// served, and so before the reply returns the memory to the requester
// (R8166-3.4.5.1-1).
func TestReadsBeforeReply(t *testing.T) {
	p, served := new(tapListener), make(chan int, 1)
	h := serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		served <- len(p.posts)
		assert.Equal(t, patternBytes(100), req.Item)
		return null(ctx, req, rep)
	})
	withTappedServer(t, &Server{Handler: h}, p, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		q.sendCall(newMsg(chunks.Lists{Reads: q.readSegments(40, patternBytes(100), 50, 50)}), rpcCall(testXID, ""))
		q.onlyAnswer()
		assert.Equal(t, 1, <-served)
		assert.Equal(t, [][]rdma.Op{{rdma.OpRead, rdma.OpRead}, {rdma.OpSend}}, p.posts)
	})
}

// TestOnePost checks that a whole reply is posted at once, the Send last.
func TestOnePost(t *testing.T) {
	for _, tt := range []struct {
		item string
		want []rdma.Op
	}{
		{"", []rdma.Op{rdma.OpSend}},
		{"item", []rdma.Op{rdma.OpWrite, rdma.OpWrite, rdma.OpSend}},
	} {
		var p tapListener
		withTappedServer(t, &Server{Handler: fixedResults(string(patternBytes(5000)), []byte(tt.item), "")}, &p, func(t *testing.T, r *testServer) {
			q := r.dialLinux()
			var l chunks.Lists
			if c, _ := q.writeChunk(3, 3); tt.item != "" {
				l.AddWrite(c)
			}
			l.Reply, _ = q.writeChunk(1000, 8000)
			l.HasReply = true
			q.sendCall(newMsg(l), rpcCall(testXID, ""))
			assert.Equal(t, wire.NoMsg, q.onlyAnswer().Proc)
			want := append([]rdma.Op{rdma.OpWrite, rdma.OpWrite}, tt.want...)
			assert.Equal(t, [][]rdma.Op{want}, p.posts)
		})
	}
}

// TestCut cuts the connection at each frame in a call with chunks both ways,
// and checks that nothing leaks.
func TestCut(t *testing.T) {
	for n := range 6 {
		withServer(t, &Server{Handler: fixedResults("", patternBytes(5000), "")}, func(t *testing.T, r *testServer) {
			q := r.dialLinux()
			c, _ := q.writeChunk(2500, 2500)
			l := chunks.Lists{Reads: q.readSegments(40, patternBytes(10), 5, 5)}
			l.AddWrite(c)
			if n < 3 {
				q.CutAfter(n) // the call, two responses
			} else {
				r.onlyServerConn().CutAfter(n - 3 + 2) // two requests; two Writes, the reply
			}
			q.sendCall(newMsg(l), rpcCall(testXID, ""))
			synctest.Wait()
			q.newAnswers()
			q.Abort(errors.New("over"))
			synctest.Wait()
		})
	}
}
