package rpcrdma

import (
	"context"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNullGolden checks that Linux's first call gets exactly the reply that
// knfsd gave (R8166-3.5.1-1, R8166-3.3.1-4, R8166-3.2-1, R8166-3.2-2).
func TestNullGolden(t *testing.T) {
	withServer(t, &Server{Handler: null, Credits: 64}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		q.sendRaw(wiretest.Hex(t, "testdata/null-call.hex"))
		assert.Equal(t, wiretest.Hex(t, "testdata/null-reply.hex"), q.onlyAnswer().wire)
	})
}

// TestCallForms checks that all call forms give the same RPC message.
func TestCallForms(t *testing.T) {
	const xid = testXID
	data := patternBytes(4093)
	long := rpcCall(xid, string(patternBytes(5000)))
	for _, tt := range []struct {
		name    string
		call    func(q *requester) (wire.Header, []byte)
		msg     []byte
		item    []byte
		itemPos int
	}{
		{
			name: "R8166-3.5.1-1 inline",
			call: func(q *requester) (wire.Header, []byte) { return newMsg(chunks.Lists{}), rpcCall(xid, "args") },
			msg:  rpcCall(xid, "args"),
		},
		{
			name: "R8166-3.3.3-4 inline of 1024 bytes",
			call: func(q *requester) (wire.Header, []byte) {
				return newMsg(chunks.Lists{}), rpcCall(xid, string(patternBytes(1024-28-40)))
			},
			msg: rpcCall(xid, string(patternBytes(1024-28-40))),
		},
		{
			name: "R8166-3.4.5.2-3 Read chunk without padding",
			call: func(q *requester) (wire.Header, []byte) {
				return newMsg(chunks.Lists{Reads: q.readSegments(44, data)}), rpcCall(xid, "lentail")
			},
			msg: rpcCall(xid, "lentail"), item: data, itemPos: 44,
		},
		{
			name: "R8166-3.4.5.2-2 Read chunk with padding",
			call: func(q *requester) (wire.Header, []byte) {
				return newMsg(chunks.Lists{Reads: q.readSegments(44, append(data, 0, 0, 0))}), rpcCall(xid, "len ")
			},
			msg: rpcCall(xid, "len "), item: append(data, 0, 0, 0), itemPos: 44,
		},
		{
			name: "R8166-3.4.5.2-2 Read chunk with padding in a segment of its own",
			call: func(q *requester) (wire.Header, []byte) {
				return newMsg(chunks.Lists{Reads: q.readSegments(44, append(data, 0, 0, 0), len(data), 3)}), rpcCall(xid, "len ")
			},
			msg: rpcCall(xid, "len "), item: append(data, 0, 0, 0), itemPos: 44,
		},
		{
			name: "R8166-3.4.4-1 R8166-3.4.5-4 Read chunk of odd segments",
			call: func(q *requester) (wire.Header, []byte) {
				return newMsg(chunks.Lists{Reads: q.readSegments(44, data, 1, 0, 3, 4087, 2, 0)}), rpcCall(xid, "len ")
			},
			msg: rpcCall(xid, "len "), item: data, itemPos: 44,
		},
		{
			name: "Read chunk of no bytes",
			call: func(q *requester) (wire.Header, []byte) {
				return newMsg(chunks.Lists{Reads: q.readSegments(44, nil)}), rpcCall(xid, "len ")
			},
			msg: rpcCall(xid, "len "), item: []byte{}, itemPos: 44,
		},
		{
			name: "several Read chunks, their segments mixed",
			call: func(q *requester) (wire.Header, []byte) {
				a, b := q.readSegments(44, data, 4000, 93), q.readSegments(44+4096+4, []byte("second"), 2, 4)
				return newMsg(chunks.Lists{Reads: []chunks.ReadSegment{b[0], a[0], b[1], a[1]}}), rpcCall(xid, "len1len2tail")
			},
			msg: rpcCall(xid, "len1"+string(data)+"\x00\x00\x00len2second\x00\x00tail"),
		},
		{
			name: "R8166-3.5.3-1 Position Zero",
			call: func(q *requester) (wire.Header, []byte) {
				return newNoMsg(chunks.Lists{Reads: q.readSegments(0, long)}), nil
			},
			msg: long,
		},
		{
			name: "R8166-3.5.3-2 Position Zero of odd segments",
			call: func(q *requester) (wire.Header, []byte) {
				return newNoMsg(chunks.Lists{Reads: q.readSegments(0, long, 39, 0, 1, len(long)-40)}), nil
			},
			msg: long,
		},
		{
			name: "R8166-3.5.3-3 tiny Position Zero, unaligned",
			call: func(q *requester) (wire.Header, []byte) {
				return newNoMsg(chunks.Lists{Reads: q.readSegments(0, rpcCall(xid, "x"))}), nil
			},
			msg: rpcCall(xid, "x"),
		},
		{
			name: "R8267-6.4.2-2 Position Zero and a Read chunk",
			call: func(q *requester) (wire.Header, []byte) {
				return newNoMsg(chunks.Lists{Reads: append(q.readSegments(44, data, 93, 4000), q.readSegments(0, rpcCall(xid, "len tail"), 4, 44)...)}), nil
			},
			msg: rpcCall(xid, "len tail"), item: data, itemPos: 44,
		},
		{
			name: "Position Zero and several Read chunks",
			call: func(q *requester) (wire.Header, []byte) {
				l := q.readSegments(0, rpcCall(xid, "len1len2"))
				l = append(l, q.readSegments(56, []byte("second"))...)
				return newNoMsg(chunks.Lists{Reads: append(l, q.readSegments(44, []byte("first"))...)}), nil
			},
			msg: rpcCall(xid, "len1first\x00\x00\x00len2second\x00\x00"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var rec requestRecorder
			withServer(t, &Server{Handler: &rec, Log: testLog(t)}, func(t *testing.T, r *testServer) {
				q := r.dialLinux()
				q.sendCall(tt.call(q))
				a := q.onlyAnswer()
				assert.Equal(t, wire.Msg, a.Proc)
				assert.EqualValues(t, xid, a.XID)
				assert.Equal(t, appendSuccess(nil, xid), a.body)
				req := rec.onlyRequest(t)
				assert.Equal(t, tt.msg, req.Msg)
				assert.Equal(t, tt.item, req.Item)
				assert.Equal(t, tt.itemPos, req.ItemPos)
				assert.Equal(t, "192.0.2.1:20049", req.Peer.Addr.String())
				assert.Equal(t, "rdma", req.Peer.Network)
				assert.Equal(t, 4096-28, req.MaxReply)
			})
		})
	}
}

// TestCallGolden checks Linux's WRITE and SETXATTR calls, with their own
// handles.
func TestCallGolden(t *testing.T) {
	var rec requestRecorder
	withServer(t, &Server{Handler: &rec}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		wire := wiretest.Hex(t, "testdata/read-chunk-call.hex")
		data := patternBytes(262144)
		q.registerAt(data, rdma.RemoteRead, 0xccf3fb02, 0x0985739a01e3a000)
		q.sendRaw(wire)
		a := q.onlyAnswer()
		assert.EqualValues(t, 0x0985739a, a.XID)
		assert.EqualValues(t, 0xccf3fb02, a.invalidated, "R8797-4.1-1")
		req := rec.onlyRequest(t)
		assert.Equal(t, wire[len(wire)-108:], req.Msg)
		assert.Equal(t, data, req.Item)
		assert.Equal(t, 108, req.ItemPos)

		head, value := rpcCall(0x2aced9d5, string(patternBytes(116))), patternBytes(3868)
		q.registerAt(head, rdma.RemoteRead, 0x2577c501, 0x2aced9d50b133000)
		q.registerAt(value, rdma.RemoteRead, 0xa3e92601, 0x2aced9d50acb9000)
		q.sendRaw(wiretest.Hex(t, "testdata/position-zero-call.hex"))
		assert.Zero(t, q.onlyAnswer().invalidated, "R8797-3.2-1: two handles")
		assert.Equal(t, append(head, value...), rec.onlyRequest(t).Msg)
	})
}

func (q *requester) registerAt(b []byte, access rdma.Access, stag rdma.STag, to uint64) {
	q.t.Helper()
	_, err := q.RegisterAt(b, access, rdma.Remote{STag: stag, TO: to})
	require.NoError(q.t, err)
}

// TestDropped checks that some messages are dropped without an answer, and
// their receives posted again.
func TestDropped(t *testing.T) {
	deaf := serviceFunc(func(context.Context, *oncrpc.Request, *oncrpc.Reply) bool { return false })
	withServer(t, &Server{Handler: deaf}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		recvs := r.onlyServerConn().Recvs()
		for n := range 28 { // R8166-4.5-1
			q.sendRaw(make([]byte, n))
		}
		for _, proc := range []wire.Proc{wire.Done, wire.Error} { // R8166-4.6.2-2, R8166-4.2.4-4
			h := wire.Header{XID: testXID, Vers: wire.Version, Proc: proc}
			q.sendRaw(h.AppendTo(nil), make([]byte, 12))
		}
		q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, "not answered by the handler"))
		q.sendCall(newMsg(chunks.Lists{Reads: q.readSegments(40, patternBytes(100))}), rpcCall(testXID, ""))
		assert.Empty(t, q.newAnswers())
		assert.Empty(t, q.closeErrors(), "the connection lives")
		assert.Equal(t, recvs, r.onlyServerConn().Recvs())
	})
}
