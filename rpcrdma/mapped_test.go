package rpcrdma

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// mapping is a connection that sends out of mappings.
type mapping struct{ *tappedConn }

func (mapping) SendsMapped() bool { return true }

// A file is a service of one data item that lies in a mapping. Where it is sent, so
// many octets of it turn out to be there; -1: all.
type file struct {
	item     []byte
	there    int
	mappable bool // what it was told last
	cuts     int
}

func (f *file) Serve(_ context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	rep.Head = appendSuccess(rep.Head, binary.BigEndian.Uint32(req.Msg))
	f.mappable = rep.Mappable
	copy(rep.NewItem(len(f.item)), f.item)
	if rep.Mappable {
		rep.Cut = func(head []byte, n int) {
			f.cuts++
			binary.BigEndian.PutUint32(head[len(head)-4:], uint32(n))
		}
	}
	rep.Head = binary.BigEndian.AppendUint32(rep.Head, uint32(len(f.item)))
	return true
}

// post does what a provider does with WRs whose data have gone from f.there on.
func (f *file) post(wrs []rdma.WR) {
	at := 0
	for _, wr := range wrs {
		for _, d := range wr.Data {
			if wr.Truncated != nil && f.there >= 0 && at+len(d) > f.there {
				n := max(f.there-at, 0)
				clear(d[n:])
				wr.Truncated(n)
			}
			at += len(d)
		}
	}
}

// The item of a long READ may be a mapping. Where the file is cut short while it is
// sent, the reply says so in its results and in its Write list.
func TestMappedItem(t *testing.T) {
	f := &file{item: repeat(100 << 10)}
	p := &tap{mapped: true}
	p.onPost = f.post
	serveTap(t, &Server{Handler: f}, p, func(t *testing.T, r *rig) {
		q := r.dialLinux()
		for _, tt := range []struct {
			segments []int
			there    int
			want     []uint32
		}{
			{[]int{1 << 20}, -1, []uint32{100 << 10}},
			{[]int{1 << 20}, 100 << 10, []uint32{100 << 10}},
			{[]int{1 << 20}, 12345, []uint32{12345}},
			{[]int{1 << 20}, 0, []uint32{0}},
			{[]int{40 << 10, 40 << 10, 40 << 10}, -1, []uint32{40 << 10, 40 << 10, 20 << 10}},
			{[]int{40 << 10, 40 << 10, 40 << 10}, 90 << 10, []uint32{40 << 10, 40 << 10, 10 << 10}},
			{[]int{40 << 10, 40 << 10, 40 << 10}, 5000, []uint32{5000, 0, 0}},
		} {
			f.there, f.cuts = tt.there, 0
			chunk, mem := q.writable(tt.segments...)
			var l chunks.Lists
			l.AddWrite(chunk)
			q.call(msg(l), rpcCall(testXID, ""))
			a := q.answer()
			assert.True(t, f.mappable)
			var got []uint32
			n := 0
			for _, s := range a.Lists.Write(0) {
				got, n = append(got, s.Length), n+int(s.Length)
			}
			assert.Equal(t, tt.want, got)
			assert.EqualValues(t, n, binary.BigEndian.Uint32(a.body[24:]))
			assert.Len(t, a.body, 28)
			assert.Equal(t, f.item[:n], mem[:n])
			assert.Equal(t, n < len(f.item), f.cuts == 1)
		}

		for _, l := range []chunks.Lists{
			{},
			lists(q, minMapped-1, 0),
			lists(q, 1<<20, 1<<20),
		} {
			f.item = f.item[:1000]
			f.there = -1
			q.call(msg(l), rpcCall(testXID, ""))
			q.answer()
			assert.False(t, f.mappable)
		}
	})
}

// lists returns chunk lists with a Write chunk and a Reply chunk of so many octets.
func lists(q *requester, write, reply int) (l chunks.Lists) {
	c, _ := q.writable(write)
	l.AddWrite(c)
	if reply > 0 {
		l.Reply, _ = q.writable(reply)
		l.HasReply = true
	}
	return l
}
