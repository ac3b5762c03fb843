package stream

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// fuzzCall returns a call that waits for its reply, to a procedure in the
// test's program.
func fuzzCall(xid, proc uint32) *call {
	cl := &call{
		xid: xid, proc: proc, binding: testBinding{}, args: encodeWord(64),
		rep: new(oncrpc.Reply), done: make(chan bool, 1),
	}
	cl.limitReply(600)
	return cl
}

// A takenReplies is how a stream interprets bytes that were written to it in
// pieces.
type takenReplies struct {
	replies map[uint32][]byte // received replies, cut to their calls' limits
	lengths map[uint32]int
	failed  bool
}

func takeReplies(t *testing.T, stream []byte, piece int) takenReplies {
	t.Helper()
	before := buf.Default.Out()
	c := &conn{pending: make(map[uint32]*call)}
	calls := []*call{fuzzCall(testXID, procItem), fuzzCall(1, procPlain), fuzzCall(2, procAny), fuzzCall(3, procItem)}
	for _, cl := range calls {
		c.pending[cl.xid] = cl
	}
	got := takenReplies{replies: make(map[uint32][]byte), lengths: make(map[uint32]int)}
	for rest := stream; len(rest) > 0 && !got.failed; {
		n := min(piece, len(rest))
		k, err := c.replies.parseBytes(c, rest[:n])
		require.LessOrEqual(t, k, n)
		got.failed = err != nil
		require.True(t, got.failed || k == n)
		rest = rest[n:]
	}
	for _, cl := range calls {
		require.LessOrEqual(t, len(cl.received), cl.maxReply+1)
		require.LessOrEqual(t, cap(cl.received), max(2*(cl.maxReply+1), 1024))
		if len(cl.done) > 0 {
			got.lengths[cl.xid] = cl.replyLen
			got.replies[cl.xid] = append([]byte{}, cl.received...)
			cl.splitReply()
			checkParts(t, cl, got.replies[cl.xid])
		}
		cl.rep.DropItem()
	}
	require.Equal(t, before, buf.Default.Out())
	return got
}

// checkParts checks that a reply's parts are its bytes in order.
func checkParts(t *testing.T, cl *call, msg []byte) {
	t.Helper()
	var item []byte
	if cl.rep.Item != nil {
		item = cl.rep.Item.B
	}
	whole := append(append([]byte{}, cl.rep.Head...), item...)
	padding := xdr.Pad(len(item))
	require.Equal(t, len(msg), len(whole)+padding+len(cl.rep.Tail))
	require.Equal(t, msg[:len(whole)], whole)
	require.Equal(t, string(msg[len(whole)+padding:]), string(cl.rep.Tail))
	if len(item) > 0 {
		length := cl.rep.Head[len(cl.rep.Head)-4:]
		require.EqualValues(t, len(item), binary.BigEndian.Uint32(length), "its length word precedes it")
	}
}

// plainReplies computes the same naively: first all records, then their
// meanings.
func plainReplies(stream []byte) takenReplies {
	got := takenReplies{replies: make(map[uint32][]byte), lengths: make(map[uint32]int)}
	most := make(map[uint32]int)
	for _, cl := range []*call{fuzzCall(testXID, procItem), fuzzCall(1, procPlain), fuzzCall(2, procAny), fuzzCall(3, procItem)} {
		most[cl.xid] = cl.maxReply
	}
	var record []byte
	for len(stream) >= markLen {
		mark := binary.BigEndian.Uint32(stream)
		stream = stream[markLen:]
		n := min(int(mark&^lastFragment), len(stream))
		record = append(record, stream[:n]...)
		if len(record) >= 8 && binary.BigEndian.Uint32(record[4:]) != 1 {
			got.failed = true
			return got
		}
		if n < int(mark&^lastFragment) {
			return got
		}
		stream = stream[n:]
		if mark&lastFragment == 0 {
			continue
		}
		if len(record) < 8 {
			got.failed = true
			return got
		}
		xid := binary.BigEndian.Uint32(record)
		if limit, ok := most[xid]; ok {
			delete(most, xid)
			got.lengths[xid] = len(record)
			got.replies[xid] = record[:min(len(record), limit+1)]
		}
		record = nil
	}
	return got
}

// FuzzReplies checks that, for any written bytes in any pieces, each call gets
// the bytes in the first record with its XID, or nothing.
func FuzzReplies(f *testing.F) {
	for _, tt := range replyTests() {
		n := len(tt.record)
		wire := recordFragments(tt.record[:min(n, 2000)])
		f.Add(wire, uint16(7))
		f.Add(recordFragments(tt.record[:min(n, 700)], 0, 3, 9), uint16(100))
	}
	all := append(recordFragments(successReply(1, patternBytes(40))), recordFragments(successReply(2), 1, 2, 3)...)
	f.Add(append(all, recordFragments(successReply(3, encodeWord(0), encodeOpaque(patternBytes(61)), encodeWord(7)), 50)...), uint16(1000))
	f.Add(recordFragments(callTo(testXID, procNull)), uint16(1))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint16) {
		want := plainReplies(stream)
		for _, n := range []int{1, int(piece) + 1, len(stream) + 1} {
			assert.Equal(t, want, takeReplies(t, stream, n), "pieces of %d bytes", n)
		}
	})
}
