package rpcrdma

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// assertUntouched checks that nothing was written.
func assertUntouched(t *testing.T, mem []byte) {
	t.Helper()
	assert.Equal(t, len(mem), bytes.Count(mem, []byte{guard}), "%x", mem)
}

func segmentLengths(c chunks.Chunk) []uint32 {
	n := []uint32{}
	for _, s := range c {
		n = append(n, s.Length)
	}
	return n
}

// TestReplyForms checks one reply in each form that a requester can provide
// for: a 24 byte RPC header, a length word, the item, and a tail.
func TestReplyForms(t *testing.T) {
	short, long := patternBytes(5), patternBytes(4001)
	const pad3 = "\x00\x00\x00"
	for _, tt := range []struct {
		name   string
		whole  bool
		item   []byte
		writes [][]int // segment lengths in the Write chunks offered
		reply  []int   // segments in the Reply chunk; nil: none
		tail   string

		proc   wire.Proc
		body   string // after the RPC header, if the form has an inline body
		stream string // the same in the Reply chunk
		wrote  [][]uint32
		filled []uint32
		data   []byte // in the first Write chunk
	}{
		{
			name: "R8166-3.5.1-1 inline", item: short, tail: "tail",
			proc: wire.Msg, body: "len " + string(short) + pad3 + "tail",
		},
		{
			name: "R8166-4.3.2-1 R8166-3.4.4.4-2 small item, Write chunk", item: short, writes: [][]int{{4096}}, tail: "tail",
			proc: wire.Msg, body: "len tail", wrote: [][]uint32{{5}}, data: short,
		},
		{
			name: "R8166-3.4.6-3 several segments", item: long, writes: [][]int{{1000, 0, 3000, 96}},
			proc: wire.Msg, body: "len ", wrote: [][]uint32{{1000, 0, 3000, 1}}, data: long,
		},
		{
			name: "R8166-3.4.6.2-2 room for padding is left alone", item: short, writes: [][]int{{5, 3}},
			proc: wire.Msg, body: "len ", wrote: [][]uint32{{5, 0}}, data: short,
		},
		{
			name: "R8166-4.3.2.2-3 no item", writes: [][]int{{4096, 4}, {100}},
			proc: wire.Msg, body: "len ", wrote: [][]uint32{{0, 0}, {0}},
		},
		{
			name: "item of no bytes", item: []byte{}, writes: [][]int{{4096}},
			proc: wire.Msg, body: "len ", wrote: [][]uint32{{0}},
		},
		{
			name: "R8166-4.3.2.1-1 R8166-4.3.2.2-1 the second chunk is left over", item: short, writes: [][]int{{4096}, {4096}},
			proc: wire.Msg, body: "len ", wrote: [][]uint32{{5}, {0}}, data: short,
		},
		{
			name: "R8166-4.3.2.3-1 R8166-4.3.2.3-2 empty Write chunk", item: short, writes: [][]int{{}}, tail: "tail",
			proc: wire.Msg, body: "len " + string(short) + pad3 + "tail", wrote: [][]uint32{{}},
		},
		{
			name: "R8166-4.3.2.3-1 the first chunk empty, the second not", item: short, writes: [][]int{{}, {100}},
			proc: wire.Msg, body: "len " + string(short) + pad3, wrote: [][]uint32{{}, {0}},
		},
		{
			name: "R8166-4.3.3-2 R8166-4.3.3-3 Reply chunk not needed", item: short, reply: []int{100, 4000, 4},
			proc: wire.Msg, body: "len " + string(short) + pad3, filled: []uint32{0, 0, 0},
		},
		{
			name: "R8166-3.5.3-4 R8166-3.5.3-5 Reply chunk", item: long, reply: []int{100, 0, 4000, 4}, tail: "tail",
			proc: wire.NoMsg, stream: "len " + string(long) + pad3 + "tail", filled: []uint32{100, 0, 3936, 0},
		},
		{
			name: "R8166-3.5.3-5 Reply chunk, padding last", item: long, reply: []int{100, 0, 4000, 4},
			proc: wire.NoMsg, stream: "len " + string(long) + pad3, filled: []uint32{100, 0, 3932, 0},
		},
		{
			name: "Write and Reply chunk, small rest", item: long, writes: [][]int{{5000}}, reply: []int{5000},
			proc: wire.Msg, body: "len ", wrote: [][]uint32{{4001}}, filled: []uint32{0}, data: long,
		},
		{
			name: "Write and Reply chunk, large rest", item: long, writes: [][]int{{5000}, {7}}, reply: []int{1, 5000},
			tail: string(long), proc: wire.NoMsg, stream: "len " + string(long), wrote: [][]uint32{{4001}, {0}},
			filled: []uint32{1, 4028}, data: long,
		},
		{
			name: "Reply chunk of no segments", item: short, reply: []int{},
			proc: wire.Msg, body: "len " + string(short) + pad3,
		},
		{
			name: "R2203-RDMA-5 whole, Write chunk unused", whole: true, item: short, writes: [][]int{{4096}}, tail: "tail",
			proc: wire.Msg, body: "len " + string(short) + pad3 + "tail", wrote: [][]uint32{{0}},
		},
		{
			name: "R8166-8.2.2.3-1 R2203-RDMA-1 whole, Write and Reply chunk", whole: true, item: long, writes: [][]int{{4096}}, reply: []int{5000},
			proc: wire.NoMsg, stream: "len " + string(long) + pad3, wrote: [][]uint32{{0}}, filled: []uint32{4032},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			handler := fixedResults("len ", tt.item, tt.tail)
			whole := serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
				rep.Whole = tt.whole
				assert.LessOrEqual(t, req.MaxWhole, 8000+24, "the Write chunk has no part in it")
				return handler.Serve(ctx, req, rep)
			})
			withServer(t, &Server{Handler: whole, Log: testLog(t)}, func(t *testing.T, r *testServer) {
				q := r.dialLinux()
				var l chunks.Lists
				var offered []chunks.Chunk
				var mems [][]byte
				for _, n := range tt.writes {
					c, mem := q.writeChunk(n...)
					l.AddWrite(c)
					offered, mems = append(offered, c), append(mems, mem)
				}
				var stream []byte
				if tt.reply != nil {
					l.HasReply = true
					l.Reply, stream = q.writeChunk(tt.reply...)
				}
				q.sendCall(newMsg(l), rpcCall(testXID, ""))

				a := q.onlyAnswer()
				assert.Equal(t, tt.proc, a.Proc)
				header := appendSuccess(nil, testXID)
				if tt.proc == wire.Msg {
					assert.Equal(t, string(header)+tt.body, string(a.body))
				} else {
					assert.Empty(t, a.body)
					want := string(header) + tt.stream
					assert.Equal(t, want, string(stream[:len(want)]))
					stream = stream[len(want):]
				}
				assertUntouched(t, stream)

				require.Equal(t, len(tt.writes), a.Lists.Writes())
				for i, mem := range mems { // R8166-3.4.6-2: as offered, except for the lengths
					got := a.Lists.Write(i)
					assert.Equal(t, tt.wrote[i], segmentLengths(got), "Write chunk %d", i)
					for j, s := range got {
						s.Length = offered[i][j].Length
						assert.Equal(t, offered[i][j], s)
					}
					if i == 0 {
						assert.Equal(t, string(tt.data), string(mem[:len(tt.data)]))
						mem = mem[len(tt.data):]
					}
					assertUntouched(t, mem)
				}
				assert.Equal(t, tt.reply != nil, a.Lists.HasReply)
				assert.Equal(t, append([]uint32{}, tt.filled...), segmentLengths(a.Lists.Reply))
			})
		})
	}
}

// TestReplyGolden checks Linux's READ with its own handle: the reply is exactly
// knfsd's, if the program gives the same results.
func TestReplyGolden(t *testing.T) {
	want := wiretest.Hex(t, "testdata/write-chunk-reply.hex")
	head := want[len(want)-128:]
	read := serviceFunc(func(_ context.Context, _ *oncrpc.Request, rep *oncrpc.Reply) bool {
		rep.Head = append(rep.Head, head...)
		copy(rep.NewItem(6), "hello\n")
		return true
	})
	withServer(t, &Server{Handler: read, Credits: 64}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		page := make([]byte, 4096)
		q.registerAt(page, rdma.RemoteWrite, 0xccf3fb01, 0x0585739a083af000)
		q.sendRaw(wiretest.Hex(t, "testdata/write-chunk-call.hex"))
		a := q.onlyAnswer()
		assert.Equal(t, want, a.wire)
		assert.EqualValues(t, 0xccf3fb01, a.invalidated)
		assert.Equal(t, "hello\n\x00", string(page[:7]))
	})
}

// TestReplyChunkGolden checks Linux's READDIRPLUS. knfsd uses the Reply chunk
// for 596 bytes; ours fit inline, which Linux accepts too, if the chunk comes
// back with no byte used.
func TestReplyChunkGolden(t *testing.T) {
	for _, tt := range []struct {
		n     int // bytes in the reply
		proc  wire.Proc
		wrote []uint32
	}{
		{596, wire.Msg, []uint32{0, 0, 0}},
		{4096, wire.NoMsg, []uint32{124, 3972, 0}},
	} {
		list := fixedResults(string(patternBytes(tt.n-24)), nil, "")
		withServer(t, &Server{Handler: list}, func(t *testing.T, r *testServer) {
			q := r.dialLinux()
			head, pages, pad := make([]byte, 124), make([]byte, 65536), make([]byte, 4)
			q.registerAt(head, rdma.RemoteWrite, 0x3c7ec701, 0x0285739a089cd800)
			q.registerAt(pages, rdma.RemoteWrite, 0x91ac4701, 0x0285739a7fa8c000)
			q.registerAt(pad, rdma.RemoteWrite, 0xa90fa701, 0x0285739a089cd87c)
			q.sendRaw(wiretest.Hex(t, "testdata/reply-chunk-call.hex"))
			a := q.onlyAnswer()
			assert.Equal(t, tt.proc, a.Proc)
			assert.Equal(t, tt.wrote, segmentLengths(a.Lists.Reply))
			assert.Zero(t, a.invalidated, "three handles")
		})
	}
}

// TestNoRoom checks that a reply that does not fit is rejected before anything
// is written (R8166-4.5.3-1, R8267-3.1-1, R8267-3.1-4).
func TestNoRoom(t *testing.T) {
	long := patternBytes(5000)
	for _, tt := range []struct {
		name   string
		item   []byte
		writes []int
		reply  []int
	}{
		{"no chunk", long, nil, nil},
		{"tiny Reply chunk", long, nil, []int{4000, 4}},
		{"Reply chunk of no segments", long, nil, []int{}},
		{"tiny Write chunk", long, []int{4096, 903}, nil},
		{"tiny Write chunk with a Reply chunk", long, []int{4999}, []int{10000}},
		{"Write chunk of empty segments", []byte("x"), []int{0, 0}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withServer(t, &Server{Handler: fixedResults("len ", tt.item, "")}, func(t *testing.T, r *testServer) {
				q := r.dialLinux()
				var l chunks.Lists
				var mems [][]byte
				if tt.writes != nil {
					c, mem := q.writeChunk(tt.writes...)
					l.AddWrite(c)
					mems = append(mems, mem)
				}
				if tt.reply != nil {
					var mem []byte
					l.HasReply = true
					l.Reply, mem = q.writeChunk(tt.reply...)
					mems = append(mems, mem)
				}
				q.sendCall(newMsg(l), rpcCall(testXID, ""))
				q.requireError(wire.ErrChunk)
				for _, mem := range mems {
					assertUntouched(t, mem)
				}
			})
		})
	}
}

// TestThreshold checks that a reply as long as the threshold is inline, and one
// byte more is not, with a Reply chunk or without (R8166-4.2.4-5,
// R8166-3.3.2-1, R8797-4.2-4, R8797-3.1-2).
func TestThreshold(t *testing.T) {
	for _, tt := range []struct {
		name    string
		inline  int
		private []byte
		want    int
	}{
		{"R8797-3.1-3 R8166-3.3.3-5 no private data", 4096, nil, 1024},
		{"the peer's is smaller", 8192, cmpriv.Message{RecvSize: 2048, SendSize: 65536}.AppendTo(nil), 2048},
		{"ours is less", 2048, cmpriv.Message{RecvSize: 65536, SendSize: 1024}.AppendTo(nil), 2048},
		{"ours is less than two units", 2047, cmpriv.Message{RecvSize: 65536}.AppendTo(nil), 1024},
		{"both at the limit", 262144, cmpriv.Message{RecvSize: 262144}.AppendTo(nil), 262144},
		{"R8797-6-1 a later version", 4096, []byte{0xf6, 0xab, 0x0e, 0x18, 2, 0, 9, 9}, 1024},
	} {
		t.Run(tt.name, func(t *testing.T) {
			size, maxReply := 0, tt.want-wire.MinLen // the RPC reply's
			h := serviceFunc(func(_ context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
				rep.Head = append(appendSuccess(rep.Head, testXID), patternBytes(size-24)...)
				assert.Equal(t, maxReply, req.MaxReply)
				return true
			})
			withServer(t, &Server{Handler: h, Inline: tt.inline}, func(t *testing.T, r *testServer) {
				q := r.dialWith(tt.private)
				ours, ok := cmpriv.Parse(q.PrivateData())
				require.True(t, ok)
				assert.Equal(t, cmpriv.Message{
					RemoteInvalidation: true, SendSize: tt.inline &^ 1023, RecvSize: tt.inline &^ 1023,
				}, ours)
				size = tt.want - wire.MinLen
				q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
				assert.Len(t, q.onlyAnswer().wire, tt.want)
				size++
				q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
				q.requireError(wire.ErrChunk)

				maxReply = tt.want
				size = tt.want - wire.MinLen - 4 - 16
				l := chunks.Lists{HasReply: true}
				l.Reply, _ = q.writeChunk(maxReply)
				q.sendCall(newMsg(l), rpcCall(testXID, ""))
				a := q.onlyAnswer()
				assert.Equal(t, wire.Msg, a.Proc)
				assert.Len(t, a.wire, tt.want)
				size++
				l.Reply, _ = q.writeChunk(maxReply)
				q.sendCall(newMsg(l), rpcCall(testXID, ""))
				a = q.onlyAnswer()
				assert.Equal(t, wire.NoMsg, a.Proc)
				assert.EqualValues(t, size, a.Lists.Reply.Length())
			})
		})
	}
}

// TestThresholdPerConnection checks that each of a peer's connections has its
// own thresholds, one for each direction, from its set-up to its end
// (R8797-3.1-1, R8797-4-1, R8797-4-2).
func TestThresholdPerConnection(t *testing.T) {
	withServer(t, &Server{Handler: fixedResults(string(patternBytes(2000)), nil, "")}, func(t *testing.T, r *testServer) {
		for range 2 {
			for size, proc := range map[int]wire.Proc{1024: wire.Error, 2048: wire.Error, 3072: wire.Msg, 4096: wire.Msg} {
				q := r.dialWith(cmpriv.Message{SendSize: 1024, RecvSize: size}.AppendTo(nil))
				for range 2 {
					q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, string(patternBytes(3000))))
					assert.Equal(t, proc, q.onlyAnswer().Proc, size)
				}
				require.NoError(t, q.Close())
			}
		}
	})
}

// TestLargestCall checks that the server takes a message with its advertised
// size.
func TestLargestCall(t *testing.T) {
	withServer(t, &Server{Handler: null, Inline: 8192}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, string(patternBytes(8192-wire.MinLen-40))))
		assert.Equal(t, wire.Msg, q.onlyAnswer().Proc)
	})
}

// TestMaxReply checks that MaxReply is the space in a call's chunks and the
// threshold.
func TestMaxReply(t *testing.T) {
	const segment = 16
	for _, tt := range []struct {
		name   string
		writes [][]uint32
		reply  []uint32
		want   int
	}{
		{"inline", nil, nil, 4096 - 28},
		{"small Reply chunk", nil, []uint32{100}, 4096 - 28 - 4 - segment},
		{"Reply chunk", nil, []uint32{5000, 600, 4}, 5604},
		{"huge Reply chunk", nil, []uint32{0xffffffff, 0xffffffff}, defaultMaxPayload + headSlack},
		{"Write chunk", [][]uint32{{65536, 4}}, nil, 4096 - 28 - 8 - 2*segment + 65540},
		{"huge Write chunk", [][]uint32{{0xffffffff}}, nil, 4096 - 28 - 8 - segment + defaultMaxPayload},
		{"only the first is used", [][]uint32{{10}, {500}}, nil, 4096 - 28 - 16 - 2*segment + 10},
		{"empty Write chunk", [][]uint32{{}, {500}}, nil, 4096 - 28 - 16 - segment},
		{"Write and Reply chunk", [][]uint32{{10}}, []uint32{5000}, 5010},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var rec requestRecorder
			withServer(t, &Server{Handler: &rec}, func(t *testing.T, r *testServer) {
				q := r.dialLinux()
				offer := func(lengths []uint32) (c chunks.Chunk) {
					for _, n := range lengths {
						c = append(c, chunks.Segment{Handle: 7, Length: n})
					}
					return c
				}
				var l chunks.Lists
				for _, w := range tt.writes {
					l.AddWrite(offer(w))
				}
				l.Reply, l.HasReply = offer(tt.reply), tt.reply != nil
				q.sendCall(newMsg(l), rpcCall(testXID, ""))
				synctest.Wait()
				assert.Equal(t, tt.want, rec.onlyRequest(t).MaxReply)
			})
		})
	}
}

// TestInvalidate checks that a reply invalidates memory only if the peer has
// said that it supports that, and only if the call has a single handle
// (R8797-4.1-1, R8797-4.1-2, R8797-4.1-3, R8797-3.2-1).
func TestInvalidate(t *testing.T) {
	for _, tt := range []struct {
		name  string
		r     bool
		offer func(q *requester) (l chunks.Lists)
		want  bool
	}{
		{"no chunk", true, func(*requester) (l chunks.Lists) { return }, false},
		{"Read chunk", true, oneRead, true},
		{"Read chunk, R clear", false, oneRead, false},
		{"Write chunk", true, oneWrite, true},
		{"Write chunk, R clear", false, oneWrite, false},
		{"Reply chunk not used", true, func(q *requester) (l chunks.Lists) {
			l.Reply, _ = q.writeChunk(5000)
			l.HasReply = true
			return l
		}, true},
		{"two segments of one handle", true, func(q *requester) (l chunks.Lists) {
			c, _ := q.writeChunk(100)
			a, b := c[0], c[0]
			a.Length, b.Length, b.Offset = 40, 60, b.Offset+40
			l.AddWrite(chunks.Chunk{a, b})
			return l
		}, true},
		{"Linux's segment for padding", true, func(q *requester) (l chunks.Lists) {
			c, _ := q.writeChunk(5, 4)
			l.AddWrite(c)
			return l
		}, false},
		{"Read and Reply chunk", true, func(q *requester) chunks.Lists {
			l := oneRead(q)
			l.Reply, _ = q.writeChunk(5000)
			l.HasReply = true
			return l
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withServer(t, &Server{Handler: fixedResults("len ", []byte("item"), "")}, func(t *testing.T, r *testServer) {
				q := r.dialWith(cmpriv.Message{RemoteInvalidation: tt.r, SendSize: 4096, RecvSize: 4096}.AppendTo(nil))
				l := tt.offer(q)
				handle, _ := l.Handle()
				q.sendCall(newMsg(l), rpcCall(testXID, ""))
				a := q.onlyAnswer()
				assert.Equal(t, wire.Msg, a.Proc)
				if tt.want {
					assert.EqualValues(t, handle, a.invalidated)
				} else {
					assert.Zero(t, a.invalidated)
				}
			})
		})
	}
}

// TestNoWordOfInvalidate checks that nothing is invalidated for a requester
// whose private data this end does not understand (R8797-5.1-1, R8797-5.2-3).
func TestNoWordOfInvalidate(t *testing.T) {
	second := linux.AppendTo(nil)
	second[4] = 2
	for name, private := range map[string][]byte{
		"nothing": nil, "cut short": linux.AppendTo(nil)[:7], "version 2": second, "foreign": []byte("\x00\x00\x00\x01another's"),
	} {
		t.Run(name, func(t *testing.T) {
			withServer(t, &Server{Handler: fixedResults("len ", []byte("item"), "")}, func(t *testing.T, r *testServer) {
				for _, offer := range []func(*requester) chunks.Lists{oneRead, oneWrite} {
					q := r.dialWith(private)
					q.sendCall(newMsg(offer(q)), rpcCall(testXID, ""))
					a := q.onlyAnswer()
					assert.Equal(t, wire.Msg, a.Proc)
					assert.Zero(t, a.invalidated)
				}
			})
		})
	}
}

func oneRead(q *requester) (l chunks.Lists) {
	l.Reads = q.readSegments(40, []byte("data"))
	return l
}

func oneWrite(q *requester) (l chunks.Lists) {
	c, _ := q.writeChunk(100)
	l.AddWrite(c)
	return l
}

// TestForeignHead checks that a handler may substitute its own slice for the
// head, or grow the head.
func TestForeignHead(t *testing.T) {
	for name, h := range map[string]serviceFunc{
		"its own": func(_ context.Context, _ *oncrpc.Request, rep *oncrpc.Reply) bool {
			rep.Head = appendSuccess(nil, testXID)
			return true
		},
		"before its old position": func(_ context.Context, _ *oncrpc.Request, rep *oncrpc.Reply) bool {
			rep.Head = appendSuccess(rep.Head, testXID)
			rep.Head = append(rep.Head[4:4], rep.Head...)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			withServer(t, &Server{Handler: h}, func(t *testing.T, r *testServer) {
				q := r.dialLinux()
				q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
				assert.Equal(t, appendSuccess(nil, testXID), q.onlyAnswer().body)
			})
		})
	}
}

// TestItemLengths checks, for each item length, that exactly the item comes
// back, by chunk and inline (R8166-3.4.6.2-3).
func TestItemLengths(t *testing.T) {
	for n := range 10 {
		item := patternBytes(n)
		withServer(t, &Server{Handler: fixedResults("len ", item, "tail")}, func(t *testing.T, r *testServer) {
			q := r.dialLinux()
			c, mem := q.writeChunk(4, 1, 20)
			var l chunks.Lists
			l.AddWrite(c)
			q.sendCall(newMsg(l), rpcCall(testXID, ""))
			a := q.onlyAnswer()
			assert.EqualValues(t, n, a.Lists.Write(0).Length())
			assert.Equal(t, string(item)+string(bytes.Repeat([]byte{guard}, 25-n)), string(mem))
			assert.Equal(t, "len tail", string(a.body[24:]))

			q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
			inline := q.onlyAnswer().body[28:]
			assert.Equal(t, string(item)+"\x00\x00\x00"[:-n&3]+"tail", string(inline))
		})
	}
}
