package rpcrdma

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// itemCall returns a call whose results are a length, a data item with up to
// 5001 bytes and a word, with a Write chunk for the item.
func itemCall() *oncrpc.Exchange {
	return &oncrpc.Exchange{Prog: 1, Vers: 1, Proc: 1, MaxResults: 8, Sink: make([]byte, 5001)}
}

// replyCall returns a call whose long results come in a Reply chunk.
func replyCall() *oncrpc.Exchange {
	return &oncrpc.Exchange{Prog: 1, Vers: 1, Proc: 1, MaxResults: 2000}
}

// readItem reads an itemCall's results.
func readItem(x *oncrpc.Exchange) ([]byte, error) {
	data, word := x.Results.Item(5001), x.Results.Uint32()
	if err := x.Results.Done(); err != nil {
		return nil, err
	}
	if word != 42 {
		return nil, errors.New("a wrong word behind the item")
	}
	return data, nil
}

// resultsOf returns an itemCall's results without the item, or with the item
// inline.
func resultsOf(n int, inline []byte) []byte {
	b := xdr.AppendUint32(nil, uint32(n))
	b = append(append(b, inline...), padding(len(inline))...)
	return xdr.AppendUint32(b, 42)
}

// TestItemLength checks that the item has the length in the Write chunk, for
// any length that fits (R8166-3.4.4.4-2, R8166-3.4.6.2-3): the message has no
// padding for the item, and the sink behind the item is untouched. The item was
// written before the reply was sent, and so is present with the reply
// (R8166-2.3.2-2).
func TestItemLength(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 5, 4096, 4999, 5000, 5001} {
		withFakeServer(t, knfsd, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
			x := itemCall()
			done := startCall(t.Context(), c, x)
			h := p.onlyCall()
			p.writeMemory(h.Lists.Write(0)[0], rampBytes(n))
			h.Lists.Write(0)[0].Length = uint32(n)
			p.sendReply(h, wire.Header{Lists: h.Lists}, resultsOf(n, nil)...)
			require.NoError(t, callError(t, done))
			assert.Empty(t, p.watched.live, "R8166-8.1.3-1")
			got, err := readItem(x)
			require.NoError(t, err)
			assert.Equal(t, rampBytes(n), got)
			assert.Equal(t, make([]byte, 5001-n), x.Sink[n:])
			x.Release()
		})
	}
}

// TestLongReply checks that a Reply chunk has the length that the server
// returns, and that a reply may be inline although a Reply chunk was offered,
// with an unused chunk in any form (R8166-4.3.3-2, R8166-3.5.3-4).
func TestLongReply(t *testing.T) {
	for _, tt := range []struct {
		name   string
		n      int // result bytes
		proc   wire.Proc
		change func(*chunks.Lists)
	}{
		{"all of it", 2000, wire.NoMsg, func(*chunks.Lists) {}},
		{"some of it", 4, wire.NoMsg, func(l *chunks.Lists) { l.Reply[0].Length = replyHeader + 4 }},
		{"inline, the chunk with no byte", 4, wire.Msg, func(l *chunks.Lists) { l.Reply[0].Length = 0 }},
		{"inline, the chunk with no segment", 4, wire.Msg, func(l *chunks.Lists) { l.Reply = nil }},
		{"inline, no chunk", 4, wire.Msg, func(l *chunks.Lists) { l.Reply, l.HasReply = nil, false }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
				x := replyCall()
				done := startCall(t.Context(), c, x)
				h := p.onlyCall()
				require.True(t, h.Lists.HasReply)
				assert.EqualValues(t, oncrpc.MaxReplyHeader+2000, h.Lists.Reply.Length())
				if tt.proc == wire.NoMsg {
					p.writeMemory(h.Lists.Reply[0], append(appendSuccess(nil, h.XID), rampBytes(tt.n)...))
					h.Lists.Reply[0].Length = uint32(replyHeader + tt.n)
				}
				tt.change(&h.Lists)
				p.sendReply(h, wire.Header{Proc: tt.proc, Lists: h.Lists}, rampBytes(tt.n)...)
				require.NoError(t, callError(t, done))
				assert.Empty(t, p.watched.live)
				assert.Equal(t, rampBytes(tt.n), x.Results.Fixed(tt.n))
				require.NoError(t, x.Results.Done())
				x.Release()
			})
		})
	}
}

// replyHeader is the length of an RPC reply before its results, in bytes.
const replyHeader = 24

// TestLyingReply checks that a decodable reply in a form that the call has not
// provided for is a permanent error for the call. No memory beyond the offered
// is read, and the connection lives.
func TestLyingReply(t *testing.T) {
	other := chunks.Segment{Handle: 0xdead, Length: 8, Offset: 8}
	grown := func(s chunks.Segment, n uint32) chunks.Chunk { s.Length += n; return chunks.Chunk{s} }
	for _, tt := range []struct {
		name string
		call func() *oncrpc.Exchange
		lie  func(l *chunks.Lists) wire.Proc
	}{
		{"Write chunk longer than offered", itemCall, func(l *chunks.Lists) wire.Proc {
			l.Write(0)[0].Length++
			return wire.Msg
		}},
		{"of 2^32-1 bytes", itemCall, func(l *chunks.Lists) wire.Proc {
			l.Write(0)[0].Length = 1<<32 - 1
			return wire.Msg
		}},
		{"another STag", itemCall, func(l *chunks.Lists) wire.Proc {
			l.Write(0)[0].Handle++
			return wire.Msg
		}},
		{"another offset", itemCall, func(l *chunks.Lists) wire.Proc {
			l.Write(0)[0].Offset++
			l.Write(0)[0].Length--
			return wire.Msg
		}},
		{"a segment more", itemCall, func(l *chunks.Lists) wire.Proc {
			c := append(chunks.Chunk{}, l.Write(0)...)
			c[0].Length = 8
			*l = chunks.Lists{}
			l.AddWrite(append(c, other))
			return wire.Msg
		}},
		{"two Write chunks", itemCall, func(l *chunks.Lists) wire.Proc {
			l.AddWrite(chunks.Chunk{other})
			return wire.Msg
		}},
		{"R8166-6.1-3 a Write chunk that was not offered", replyCall, func(l *chunks.Lists) wire.Proc {
			l.AddWrite(chunks.Chunk{other})
			return wire.Msg
		}},
		{"a Reply chunk that was not offered", itemCall, func(l *chunks.Lists) wire.Proc {
			l.HasReply, l.Reply = true, chunks.Chunk{other}
			return wire.Msg
		}},
		{"the message in a Reply chunk that was not offered", itemCall, func(l *chunks.Lists) wire.Proc {
			l.HasReply, l.Reply = true, chunks.Chunk{other}
			return wire.NoMsg
		}},
		{"the message in a Write chunk", itemCall, func(*chunks.Lists) wire.Proc { return wire.NoMsg }},
		{"Reply chunk longer than offered", replyCall, func(l *chunks.Lists) wire.Proc {
			l.Reply = grown(l.Reply[0], 1)
			return wire.NoMsg
		}},
		{"Reply chunk of other memory", replyCall, func(l *chunks.Lists) wire.Proc {
			l.Reply = chunks.Chunk{other}
			return wire.NoMsg
		}},
		{"Reply chunk without bytes", replyCall, func(l *chunks.Lists) wire.Proc {
			l.Reply[0].Length = 0
			return wire.NoMsg
		}},
		{"Reply chunk without segments", replyCall, func(l *chunks.Lists) wire.Proc {
			l.Reply = nil
			return wire.NoMsg
		}},
		{"Reply chunk used with an inline message", replyCall, func(l *chunks.Lists) wire.Proc {
			l.Reply[0].Length = 100
			return wire.Msg
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
				x := tt.call()
				done := startCall(t.Context(), c, x)
				h := p.onlyCall()
				proc := tt.lie(&h.Lists)
				p.sendReply(h, wire.Header{Proc: proc, Lists: h.Lists, Credit: 7}, resultsOf(5001, nil)...)
				assert.Error(t, callError(t, done))
				assert.Nil(t, x.Lent)
				assert.Empty(t, p.watched.live)
				assert.False(t, p.isLost())
				assert.Equal(t, 7, c.Credits(), "its grant is used")
				p.requireSuccess(c)
			})
		})
	}
}

// TestItemNotWritten checks that a server that falsely claims to have written
// is not believed: otherwise the caller would take its memory's older content
// for results. The server may write in any order and pieces (R5042-6.3.2-1).
func TestItemNotWritten(t *testing.T) {
	type piece struct{ from, to int }
	for name, tt := range map[string]struct {
		wrote []piece
		said  int
		ok    bool
	}{
		"nothing":                 {nil, 5001, false},
		"no data, and reports it": {nil, 0, true},
		"all":                     {[]piece{{0, 5001}}, 5001, true},
		"all except the last":     {[]piece{{0, 5000}}, 5001, false},
		"all except the first":    {[]piece{{1, 5001}}, 5001, false},
		"enough":                  {[]piece{{0, 4000}}, 4000, true},
		"as many, twice":          {[]piece{{0, 2501}, {0, 2500}}, 5001, false},
		"all, in pieces":          {[]piece{{0, 1000}, {1000, 5001}}, 5001, true},
		"all, the last first":     {[]piece{{4000, 5001}, {1000, 2000}, {2000, 4000}, {0, 1000}}, 5001, true},
		"all, some of it twice":   {[]piece{{4000, 5001}, {900, 4100}, {0, 1000}}, 5001, true},
		"a gap":                   {[]piece{{0, 1000}, {1001, 5001}}, 5001, false},
		"a gap behind its words":  {[]piece{{0, 1000}, {1001, 5001}}, 1000, true},
	} {
		t.Run(name, func(t *testing.T) {
			withFakeServer(t, knfsd, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
				x := itemCall()
				done := startCall(t.Context(), c, x)
				h := p.onlyCall()
				s := h.Lists.Write(0)[0]
				for _, w := range tt.wrote {
					part := s
					part.Offset += uint64(w.from)
					p.writeMemory(part, rampBytes(5001)[w.from:w.to])
				}
				h.Lists.Write(0)[0].Length = uint32(tt.said)
				p.sendReply(h, wire.Header{Lists: h.Lists}, resultsOf(tt.said, nil)...)
				err := callError(t, done)
				if !tt.ok {
					require.ErrorIs(t, err, errNotWritten)
					assert.Nil(t, x.Lent)
					p.requireSuccess(c)
					return
				}
				require.NoError(t, err)
				if tt.said > 0 {
					got, err := readItem(x)
					require.NoError(t, err)
					assert.Equal(t, rampBytes(5001)[:tt.said], got)
				}
				x.Release()
			})
		})
	}
}

// TestMisplacedItem checks that a misplaced item is an error when the program
// reads the results (R8166-6.1-4, R8166-6.1-3): an item inline although a chunk
// was offered, an item whose length differs from the chunk's, and a missing
// item.
func TestMisplacedItem(t *testing.T) {
	for _, tt := range []struct {
		name  string
		wrote int // bytes to the chunk; negative: no chunk comes back
		rest  []byte
	}{
		{"R8166-6.1-4 inline, chunk unused", 0, resultsOf(100, rampBytes(100))},
		{"R8166-6.1-4 inline, no chunk", -1, resultsOf(100, rampBytes(100))},
		{"both", 100, resultsOf(100, rampBytes(100))},
		{"shorter than the count", 99, resultsOf(100, nil)},
		{"longer than the count", 101, resultsOf(97, nil)},
		{"count larger than offered", 5001, resultsOf(5002, nil)},
		{"count of 2^32-1", 5001, resultsOf(1<<32-1, nil)},
		{"nowhere", 0, resultsOf(100, nil)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withFakeServer(t, knfsd, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
				x := itemCall()
				done := startCall(t.Context(), c, x)
				h := p.onlyCall()
				var l chunks.Lists
				if tt.wrote >= 0 {
					s := h.Lists.Write(0)[0]
					p.writeMemory(s, rampBytes(tt.wrote))
					s.Length = uint32(tt.wrote)
					l.AddWrite(chunks.Chunk{s})
				}
				p.sendReply(h, wire.Header{Lists: l}, tt.rest...)
				require.NoError(t, callError(t, done))
				_, err := readItem(x)
				assert.Error(t, err)
				x.Release()
			})
		})
	}
	// R8166-6.1-3: results without an item, and bytes in the chunk.
	withFakeServer(t, knfsd, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		x := itemCall()
		done := startCall(t.Context(), c, x)
		h := p.onlyCall()
		p.writeMemory(h.Lists.Write(0)[0], rampBytes(8))
		h.Lists.Write(0)[0].Length = 8
		p.sendReply(h, wire.Header{Lists: h.Lists}, 0, 0, 0, 5)
		require.NoError(t, callError(t, done))
		assert.EqualValues(t, 5, x.Results.Uint32())
		assert.ErrorIs(t, x.Results.Done(), xdr.ErrItem)
		x.Release()
	})
	// R8166-4.3.2.2-3, R8166-4.3.2.2-4, R8166-3.4.4.3-1: results without an
	// item, the chunk unused, although its memory was written.
	withFakeServer(t, knfsd, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		x := itemCall()
		done := startCall(t.Context(), c, x)
		h := p.onlyCall()
		p.writeMemory(h.Lists.Write(0)[0], rampBytes(77))
		h.Lists.Write(0)[0].Length = 0
		p.sendReply(h, wire.Header{Lists: h.Lists}, 0, 0, 0, 5)
		require.NoError(t, callError(t, done))
		assert.EqualValues(t, 5, x.Results.Uint32())
		assert.NoError(t, x.Results.Done())
		x.Release()
	})
}

// TestItemInReplyChunk checks that a Reply chunk has the message's padding
// (R8166-3.5.3-5).
func TestItemInReplyChunk(t *testing.T) {
	withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		x := itemCall()
		x.MaxResults = 2000 // too long together with a Write chunk
		done := startCall(t.Context(), c, x)
		h := p.onlyCall()
		assert.EqualValues(t, oncrpc.MaxReplyHeader+2000+5004, h.Lists.Reply.Length())
		message := append(appendSuccess(nil, h.XID), resultsOf(5001, rampBytes(5001))...)
		p.writeMemory(h.Lists.Reply[0], message)
		h.Lists.Reply[0].Length = uint32(len(message))
		p.sendReply(h, wire.Header{Proc: wire.NoMsg, Lists: h.Lists})
		require.NoError(t, callError(t, done))
		data, err := readItem(x)
		require.NoError(t, err)
		assert.Equal(t, rampBytes(5001), data)
		x.Release()
	})
}

// TestRPCErrors checks that RPC errors are the call's, in any form.
func TestRPCErrors(t *testing.T) {
	for _, long := range []bool{false, true} {
		withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
			x := replyCall()
			done := startCall(t.Context(), c, x)
			h := p.onlyCall()
			message := appendSuccess(nil, h.XID)
			binary.BigEndian.PutUint32(message[20:], 4) // GARBAGE_ARGS
			if long {
				p.writeMemory(h.Lists.Reply[0], message)
				h.Lists.Reply[0].Length = uint32(len(message))
				p.sendReply(h, wire.Header{Proc: wire.NoMsg, Lists: h.Lists})
			} else {
				p.sendRaw((&wire.Header{XID: h.XID, Vers: 1, Credit: 1}).AppendTo(nil), message)
			}
			assert.ErrorIs(t, callError(t, done), oncrpc.ErrGarbageArgs)
			assert.Nil(t, x.Lent)
		})
	}
}

// TestInvalidated checks that a server may invalidate the call's STag although
// it has said that it does not, as knfsd does, or another call's STag, against
// R8797-4.1-2. That call finds its memory already closed to the server, and
// still takes its reply.
func TestInvalidated(t *testing.T) {
	for _, private := range [][]byte{nil, knfsd} {
		withFakeServer(t, private, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
			x, y, z := replyCall(), replyCall(), replyCall()
			for _, x := range []*oncrpc.Exchange{x, y, z} {
				x.MaxResults = 5000
			}
			first := startCall(t.Context(), c, x)
			h := p.onlyCall()
			invalidate := func(h receivedCall, stag uint32) {
				r := wire.Header{XID: h.XID, Vers: 1, Credit: 8, Lists: h.Lists}
				r.Lists.Reply[0].Length = 0
				assert.NoError(t, p.Post(rdma.WR{
					Op: rdma.OpSend, Data: [][]byte{append(r.AppendTo(nil), appendSuccess(nil, h.XID)...)},
					WithInvalidate: true, Invalidate: rdma.STag(stag),
				}))
			}
			invalidate(h, h.Lists.Reply[0].Handle)
			require.NoError(t, callError(t, first))

			one, other := startCall(t.Context(), c, y), startCall(t.Context(), c, z)
			calls := p.newCalls()
			require.Len(t, calls, 2)
			for i, h := range calls {
				if i == 0 {
					invalidate(h, calls[1].Lists.Reply[0].Handle)
					continue
				}
				p.sendReply(h, wire.Header{Lists: chunks.Lists{}})
			}
			assert.NoError(t, callError(t, one))
			assert.NoError(t, callError(t, other))
			assert.False(t, p.isLost())
			for _, x := range []*oncrpc.Exchange{x, y, z} {
				x.Release()
			}
		})
	}
}
