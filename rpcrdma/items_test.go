package rpcrdma

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReplyItems checks several data items in a reply: each goes into the Write
// chunk at its place, or inline if that chunk is empty or missing, and a chunk
// without an item returns empty (R8267-6.4.1-1, R8267-6.4.1-2, R8267-6.4.1-3,
// R8267-6.4.1-4, R8267-6.4.1-5, R8267-6.4.1-6).
func TestReplyItems(t *testing.T) {
	long := string(patternBytes(5001))
	for name, tt := range map[string]struct {
		writes []int // -1: a chunk without segments
		items  []string
		body   string
		data   []string // in the chunks
	}{
		"a chunk each":       {[]int{6000, 6000}, []string{long, "second"}, "t0t1", []string{long, "second"}},
		"the first is empty": {[]int{-1, 6000}, []string{"first", long}, "first\x00\x00\x00t0t1", []string{"", long}},
		"more items":         {[]int{6000}, []string{long, "second", "3"}, "t0second\x00\x00t13\x00\x00\x00t2", []string{long}},
		"more chunks":        {[]int{100, 100, 100}, []string{"one", "two"}, "t0t1", []string{"one", "two", ""}},
		"no chunk":           {nil, []string{"one", "two"}, "one\x00t0two\x00t1", nil},
		"no item":            {[]int{100, 100}, nil, "", []string{"", ""}},
		"an item of nothing": {[]int{100, 100}, []string{"", "two"}, "t0t1", []string{"", "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			var limits []int
			s := serviceFunc(func(_ context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
				limits = slices.Clone(req.ItemLimits)
				rep.Head = appendSuccess(rep.Head, binary.BigEndian.Uint32(req.Msg))
				for i, item := range tt.items {
					tail := fmt.Append(nil, "t", i)
					if i == 0 {
						copy(rep.NewItem(len(item)), item)
						rep.Tail = tail
						continue
					}
					p, ok := rep.AddItem(len(item))
					assert.True(t, ok)
					copy(p, item)
					rep.More[i-1].Tail = tail
				}
				return true
			})
			withServer(t, &Server{Handler: s, Log: testLog(t)}, func(t *testing.T, r *testServer) {
				q := r.dialLinux()
				var l chunks.Lists
				var mems [][]byte
				var want []int
				for _, n := range tt.writes {
					if n < 0 {
						l.AddWrite(nil)
						mems, want = append(mems, nil), append(want, 0)
						continue
					}
					c, mem := q.writeChunk(n)
					l.AddWrite(c)
					mems, want = append(mems, mem), append(want, n)
				}
				q.sendCall(newMsg(l), rpcCall(testXID, ""))
				a := q.onlyAnswer()
				assert.Equal(t, want, limits)
				assert.Equal(t, wire.Msg, a.Proc)
				assert.Equal(t, string(appendSuccess(nil, testXID))+tt.body, string(a.body))
				require.Equal(t, len(tt.writes), a.Lists.Writes())
				for i, data := range tt.data {
					assert.EqualValues(t, len(data), a.Lists.Write(i).Length())
					assert.Equal(t, data, string(mems[i][:len(data)]))
					assertUntouched(t, mems[i][len(data):])
				}
			})
		})
	}
}

// TestReplyItemLong checks that a second item that does not fit into its chunk
// is an error before anything is written, and that all chunks' rooms are no
// more than one payload.
func TestReplyItemLong(t *testing.T) {
	var limits []int
	s := serviceFunc(func(_ context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		limits = slices.Clone(req.ItemLimits)
		rep.Head = appendSuccess(rep.Head, binary.BigEndian.Uint32(req.Msg))
		rep.NewItem(10)
		_, ok := rep.AddItem(101)
		return ok
	})
	withServer(t, &Server{Handler: s, MaxPayload: 8192, Log: testLog(t)}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		var l chunks.Lists
		first, mem := q.writeChunk(5000)
		second, _ := q.writeChunk(100)
		third, _ := q.writeChunk(5000)
		l.AddWrite(first)
		l.AddWrite(second)
		l.AddWrite(third)
		q.sendCall(newMsg(l), rpcCall(testXID, ""))
		q.requireError(wire.ErrChunk)
		assertUntouched(t, mem)
		assert.Equal(t, []int{5000, 100, 3092}, limits)
	})
}
