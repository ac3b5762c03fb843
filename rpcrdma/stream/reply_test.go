package stream

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	rpcwire "github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A replyTest is a call, the bytes that its server writes, and the expected
// result.
type replyTest struct {
	name   string
	proc   uint32
	limit  int     // in the call
	writes [][]int // segments in the Write chunks
	reply  []int   // segments in the Reply chunk
	record []byte

	want  []byte // the RPC reply without the bytes in the Write chunk
	moved []byte // the bytes in the Write chunk
	code  rpcwire.ErrCode
}

func replyTests() []replyTest {
	item := patternBytes(4001) // 3 padding bytes
	ok := successReply(testXID, encodeWord(0), encodeOpaque(item), encodeWord(7))
	cutOut := successReply(testXID, encodeWord(0), encodeWord(len(item)), encodeWord(7))
	small := successReply(testXID, encodeWord(0), encodeOpaque(item[:5]), encodeWord(7))
	smallCut := successReply(testXID, encodeWord(0), encodeWord(5), encodeWord(7))
	failed := successReply(testXID, encodeWord(5))
	broken := successReply(testXID, encodeWord(0), encodeWord(99), encodeWord(7))
	list := successReply(testXID, item)
	systemErr := successReply(testXID)
	systemErr[23] = 5
	denied := joinBytes(encodeWord(testXID), encodeWord(1), encodeWord(1), encodeWord(1), encodeWord(5))
	signed := joinBytes(encodeWord(testXID), encodeWord(1), encodeWord(0), encodeWord(6), encodeOpaque(item[:399]), encodeWord(0), encodeWord(0), encodeOpaque(item), encodeWord(7))
	signedCut := joinBytes(encodeWord(testXID), encodeWord(1), encodeWord(0), encodeWord(6), encodeOpaque(item[:399]), encodeWord(0), encodeWord(0), encodeWord(len(item)), encodeWord(7))
	return []replyTest{
		{name: "inline", proc: procItem, limit: 5, record: small, want: small},
		{name: "no results", proc: procNull, record: successReply(testXID), want: successReply(testXID)},
		{name: "Write chunk", proc: procItem, limit: 4001, writes: [][]int{{4001}}, record: ok, want: cutOut, moved: item},
		{name: "Write chunk, a small item", proc: procItem, limit: 4001, writes: [][]int{{4001}}, record: small, want: smallCut, moved: item[:5]},
		{name: "Write chunk of segments", proc: procItem, limit: 4001, writes: [][]int{{1, 2000, 0, 2000, 96}}, record: ok, want: cutOut, moved: item},
		{name: "Write chunks", proc: procItem, limit: 4001, writes: [][]int{{4004}, {100}}, record: ok, want: cutOut, moved: item},
		{name: "empty Write chunk", proc: procItem, limit: 4001, writes: [][]int{{}}, record: small, want: small},
		{name: "Write chunk and Reply chunk", proc: procItem, limit: 4001, writes: [][]int{{4001}}, reply: []int{5000}, record: ok, want: cutOut, moved: item},
		{name: "Reply chunk", proc: procItem, limit: 4001, reply: []int{5000}, record: ok, want: ok},
		{name: "Reply chunk, a plain result", proc: procPlain, limit: 5000, reply: []int{3000, 2000}, record: list, want: list},
		{name: "Reply chunk, without a bound", proc: procAny, reply: []int{5000}, record: list, want: list},
		{name: "failed", proc: procItem, limit: 4001, writes: [][]int{{4001}}, record: failed, want: failed},
		{name: "not served", proc: procItem, limit: 4001, writes: [][]int{{4001}}, record: systemErr, want: systemErr},
		{name: "denied", proc: procItem, limit: 4001, writes: [][]int{{4001}}, record: denied, want: denied},
		{name: "a missing item", proc: procItem, limit: 4001, writes: [][]int{{4001}}, record: broken, want: broken},
		{name: "empty item", proc: procItem, limit: 4001, writes: [][]int{{4001}}, record: successReply(testXID, encodeWord(0), encodeWord(0), encodeWord(7)), want: successReply(testXID, encodeWord(0), encodeWord(0), encodeWord(7))},
		{name: "verifier", proc: procItem, limit: 4001, writes: [][]int{{4001}}, record: signed, want: signedCut, moved: item},

		// R8166-4.5.3-1, R8267-3.1-1, R8267-3.1-4
		{name: "no chunk", proc: procItem, limit: 4097, record: successReply(testXID, encodeWord(0), encodeOpaque(patternBytes(4097)), encodeWord(7)), code: rpcwire.ErrChunk},
		{name: "short Write chunk", proc: procItem, limit: 4001, writes: [][]int{{4000}}, record: ok, code: rpcwire.ErrChunk},
		{name: "short Reply chunk", proc: procPlain, limit: 4100, reply: []int{len(list) + 75}, record: successReply(testXID, patternBytes(4100)), code: rpcwire.ErrChunk},
		{name: "much too long", proc: procAny, record: successReply(testXID, patternBytes(1<<20)), code: rpcwire.ErrChunk},
		{name: "longer than the procedure's", proc: procPlain, limit: 100, reply: []int{5000}, record: successReply(testXID, patternBytes(101+400)), want: systemErr},
		{name: "an item longer than the procedure's", proc: procItem, limit: 4000, writes: [][]int{{5000}}, record: successReply(testXID, encodeWord(0), encodeOpaque(patternBytes(4500)), encodeWord(7)), want: systemErr},
	}
}

// sendCall makes the call, and returns the memory for the first Write chunk and
// the Reply chunk.
func (s *replyTest) sendCall(q *requester) (mem, reply []byte) {
	h := newMsg(chunks.Lists{})
	for i, lengths := range s.writes {
		c, m := q.writeChunk(lengths...)
		h.Lists.AddWrite(c)
		if i == 0 {
			mem = m
		}
	}
	if s.reply != nil {
		h.Lists.Reply, reply = q.writeChunk(s.reply...)
		h.Lists.HasReply = true
	}
	q.sendCall(h, callTo(testXID, s.proc, encodeWord(s.limit)))
	return mem, reply
}

// checkResult checks the requester's result.
func (s *replyTest) checkResult(t *testing.T, q *requester, mem, reply []byte) {
	t.Helper()
	if s.code != 0 {
		q.requireError(s.code)
		assertUntouched(t, mem) // R8267-3.1-4
		assertUntouched(t, reply)
		return
	}
	a := q.onlyAnswer()
	if a.Proc == rpcwire.NoMsg {
		a.body, reply = reply[:a.Lists.Reply.Length()], reply[a.Lists.Reply.Length():]
	}
	assert.Equal(t, s.want, a.body)
	assert.True(t, bytes.Equal(s.moved, mem[:len(s.moved)]))
	assertUntouched(t, mem[len(s.moved):])
	assertUntouched(t, reply)
	if assert.Equal(t, len(s.writes), a.Lists.Writes(), "R8166-4.3.2.2-3: with as many segments") {
		for i, lengths := range s.writes {
			assert.Len(t, a.Lists.Write(i), len(lengths))
			n := len(s.moved)
			if i > 0 {
				n = 0
			}
			assert.EqualValues(t, n, a.Lists.Write(i).Length())
		}
	}
}

// TestReplies checks that a record gives the same reply however it is cut
// into fragments and writes (R8166-4.3.2-1, R8166-4.3.2.1-1, R8166-4.3.2.3-1,
// R8166-3.4.6-3).
func TestReplies(t *testing.T) {
	for _, tt := range replyTests() {
		t.Run(tt.name, func(t *testing.T) {
			withListener(t, nil, func(t *testing.T, r *testListener) {
				q := r.dialLinux()
				n := len(tt.record)
				var c net.Conn
				for _, lengths := range [][]int{nil, {0, 3, 2, 0, 1}, {10, n - 10}, {n}} {
					mem, reply := tt.sendCall(q)
					if c == nil {
						c = r.acceptConn()
					}
					readRecord(t, c)
					wire := recordFragments(tt.record, lengths...)
					if len(lengths) == 3 { // half-written
						for i := range wire {
							writeAll(t, c, wire[i:i+1])
						}
					} else {
						writeAll(t, c, wire)
					}
					tt.checkResult(t, q, mem, reply)
				}
			})
		})
	}
}

// TestReplyAboveLimits checks that no partial reply is sent if a Reply
// chunk is longer than the memory that this end lends for it (R8166-4.5.3-1).
func TestReplyAboveLimits(t *testing.T) {
	withListener(t, func(s *rpcrdma.Server) { s.MaxPayload = 1024 }, func(t *testing.T, r *testListener) {
		q := r.dialLinux()
		long := replyTest{proc: procAny, reply: []int{100000}}
		mem, reply := long.sendCall(q)
		c := r.acceptConn()
		readRecord(t, c)
		writeAll(t, c, recordFragments(successReply(testXID, patternBytes(1024+64<<10))))
		long.code = rpcwire.ErrChunk
		long.checkResult(t, q, mem, reply)
	})
}

// TestOrder checks that replies go to the calls that they name, in any order. A
// reply without a waiting call is discarded, and so is a call with a waiting
// call's XID.
func TestOrder(t *testing.T) {
	withListener(t, nil, func(t *testing.T, r *testListener) {
		q := r.dialLinux()
		for xid := range uint32(5) {
			q.sendCall(rpcwire.Header{XID: xid, Proc: rpcwire.Msg}, callTo(xid, procNull))
			synctest.Wait()
		}
		q.sendCall(rpcwire.Header{XID: 3, Proc: rpcwire.Msg}, callTo(3, procNull))
		c := r.acceptConn()
		for xid := range uint32(5) {
			assert.Equal(t, xid, binary.BigEndian.Uint32(readRecord(t, c)))
		}
		var all []byte
		for _, xid := range []uint32{3, 99, 0, 4, 3, 2, 1, 1} {
			all = append(all, recordFragments(successReply(xid))...)
		}
		writeAll(t, c, all)
		var got []uint32
		for _, a := range q.newAnswers() {
			got = append(got, a.XID)
		}
		assert.ElementsMatch(t, []uint32{0, 1, 2, 3, 4}, got)
		q.sendCall(rpcwire.Header{XID: 3, Proc: rpcwire.Msg}, callTo(3, procNull))
		readRecord(t, c)
		writeAll(t, c, recordFragments(successReply(3)))
		assert.EqualValues(t, 3, q.onlyAnswer().XID, "an XID may be reused")
	})
}

// TestEarlyReply checks that a reply written before its call has been read
// completely waits: the call's bytes are still needed.
func TestEarlyReply(t *testing.T) {
	withListener(t, nil, func(t *testing.T, r *testListener) {
		q := r.dialLinux()
		call := callTo(testXID, procAny, patternBytes(100))
		q.sendCall(readListMsg(), call)
		c := r.acceptConn()
		start := make([]byte, 50)
		n, err := c.Read(start)
		require.NoError(t, err)
		require.Equal(t, 50, n)
		writeAll(t, c, recordFragments(successReply(testXID)))
		assert.Empty(t, q.newAnswers())
		rest := make([]byte, 200)
		n, err = c.Read(rest)
		require.NoError(t, err)
		assert.Equal(t, call, append(start[4:], rest[:n]...))
		assert.Equal(t, successReply(testXID), q.onlyAnswer().body)
	})
}

// TestNoReply checks that bytes that are no reply end their connection,
// and no other.
func TestNoReply(t *testing.T) {
	for name, wire := range map[string][]byte{
		"a call":     recordFragments(callTo(testXID, procNull)),
		"XID alone":  recordFragments(encodeWord(testXID)),
		"nothing":    recordFragments(nil),
		"wrong byte": recordFragments(joinBytes(encodeWord(testXID), encodeWord(2), encodeWord(0))),
	} {
		t.Run(name, func(t *testing.T) {
			withListener(t, nil, func(t *testing.T, r *testListener) {
				r.l.Server.Log = testLog(t)
				other := r.dialLinux()
				other.sendCall(readListMsg(), callTo(testXID, procNull))
				c2 := r.acceptConn()
				q := r.dialLinux()
				q.sendCall(readListMsg(), callTo(testXID, procNull))
				q.sendCall(rpcwire.Header{XID: 1, Proc: rpcwire.Msg}, callTo(1, procNull))
				c := r.acceptConn()
				n, err := c.Write(append(recordFragments(successReply(1)), wire...))
				assert.ErrorIs(t, err, errNoReplyRecord)
				assert.GreaterOrEqual(t, n, len(recordFragments(successReply(1))))
				assert.Len(t, q.newAnswers(), 1, "earlier data")
				assert.Len(t, q.closeErrors(), 1)
				_, err = c.Read(make([]byte, 1))
				assert.ErrorIs(t, err, errNoReplyRecord)
				readRecord(t, c2)
				writeAll(t, c2, recordFragments(successReply(testXID)))
				assert.Equal(t, rpcwire.Msg, other.onlyAnswer().Proc)
			})
		})
	}
}

// TestMemory checks that a record takes no more memory than its call has
// reserved, for any mark, and none if no call waits for the record.
func TestMemory(t *testing.T) {
	withListener(t, nil, func(t *testing.T, r *testListener) {
		q := r.dialLinux()
		item := replyTest{proc: procItem, limit: 1 << 30, writes: [][]int{{8192}}}
		item.sendCall(q)
		c := r.acceptConn().(*conn)
		readRecord(t, c)
		cl := c.pending[testXID]
		huge := []byte{0x7f, 0xff, 0xff, 0xff}
		writeAll(t, c, append(huge, successReply(testXID, encodeWord(0), encodeWord(1<<30))...))
		for range 1000 {
			writeAll(t, c, patternBytes(4096))
		}
		maxReply := 4096 - rpcwire.MinLen - 8 - 16 + 8192
		assert.Equal(t, maxReply+1, len(cl.received))
		assert.LessOrEqual(t, cap(cl.received), 16<<10)
		require.NoError(t, c.Close())
		synctest.Wait()
		assert.Len(t, q.closeErrors(), 1)
	})
}

// TestRecordInPlace checks that a single-fragment record goes directly to
// memory with its length.
func TestRecordInPlace(t *testing.T) {
	cl := fuzzCall(testXID, procItem)
	cl.args = encodeWord(2000)
	cl.limitReply(3000)
	c := &conn{pending: map[uint32]*call{testXID: cl}}
	wire := recordFragments(successReply(testXID, patternBytes(1028-24))) // 4 bytes above a buffer size
	_, err := c.replies.parseBytes(c, wire[:12])
	require.NoError(t, err)
	first := &cl.received[0]
	_, err = c.replies.parseBytes(c, wire[12:])
	require.NoError(t, err)
	assert.Same(t, first, &cl.received[0])
	assert.Len(t, cl.received, 1028)
	cl.rep.DropItem()
}

// TestSealed checks that nothing is parsed in arguments and results under
// RPCSEC_GSS (R8166-8.2.2.3-1).
func TestSealed(t *testing.T) {
	withListener(t, nil, func(t *testing.T, r *testListener) {
		q := r.dialLinux()
		call := callTo(testXID, procItem, encodeWord(1), encodeWord(2))
		call[27] = byte(rpcmsg.AuthGSS)
		h := newMsg(chunks.Lists{})
		c, _ := q.writeChunk(4096)
		h.Lists.AddWrite(c)
		q.sendCall(h, call)
		s := r.acceptConn()
		assert.Equal(t, call, readRecord(t, s))
		reply := successReply(testXID, encodeWord(0), encodeOpaque(patternBytes(2000)), encodeWord(7))
		writeAll(t, s, recordFragments(reply))
		a := q.onlyAnswer()
		assert.Equal(t, reply, a.body)
		assert.Zero(t, a.Lists.Write(0).Length())
	})
}

// TestMovable checks that a Binding with false results does no harm.
func TestMovable(t *testing.T) {
	results := make([]byte, 16)
	for _, tt := range []struct{ start, n, wantStart, want int }{
		{4, 12, 4, 12},
		{4, 11, 4, 11},
		{5, 11, 5, 0},
		{4, 13, 0, 0},
		{-1, 4, 0, 0},
		{4, -4, 0, 0},
		{17, 1, 0, 0},
		{1 << 62, 1 << 62, 0, 0},
		{0, 16, 0, 16},
	} {
		start, n := movableResult(claimsBinding{start: tt.start, n: tt.n}, 1, results)
		if tt.want > 0 {
			assert.Equal(t, tt.wantStart, start)
		}
		assert.Equal(t, tt.want, n, tt)
	}
}

type claimsBinding struct {
	testBinding
	start, n int
}

func (c claimsBinding) ResultItem(uint32, []byte) (start, n int) { return c.start, c.n }
