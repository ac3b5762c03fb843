package rpcrdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A mappedSendConn is a connection that sends from mappings.
type mappedSendConn struct{ *tappedConn }

func (mappedSendConn) SendsMapped() bool { return true }

// A mappedFile is a service with one data item in a mapping. When the item is
// sent, only its first there bytes are present; -1: all.
type mappedFile struct {
	item       []byte
	readable   int
	rereadable int   // bytes before it can be read in another way
	err        error // why no more can be read
	mappable   bool  // Reply.Mappable's last value
	cuts       int
	returned   atomic.Int32 // returned items
}

func (f *mappedFile) Return([]byte) { f.returned.Add(1) }

func (f *mappedFile) Reread(mem []byte, at int, p []byte) (int, error) {
	if n := min(f.rereadable, at+len(p)); n > at {
		return at + copy(p, f.item[at:n]), f.err
	}
	return f.rereadable, f.err
}

func (f *mappedFile) Serve(_ context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	rep.Head = appendSuccess(rep.Head, binary.BigEndian.Uint32(req.Msg))
	f.mappable = rep.Mappable
	if rep.Mappable {
		rep.Item = buf.Borrow(bytes.Clone(f.item), f)
		rep.Cut = func(head []byte, n int, err error) []byte {
			f.cuts++
			if err != nil && n == 0 {
				return head[:len(head)-4]
			}
			binary.BigEndian.PutUint32(head[len(head)-4:], uint32(n))
			return head
		}
	} else {
		copy(rep.NewItem(len(f.item)), f.item)
	}
	rep.Head = binary.BigEndian.AppendUint32(rep.Head, uint32(len(f.item)))
	return true
}

// sendMapped does a provider's work for WRs whose data are missing from f.there on.
func (f *mappedFile) sendMapped(wrs []rdma.WR) {
	at := 0
	for _, wr := range wrs {
		for i, d := range wr.Data {
			if wr.Reread != nil && f.readable >= 0 && at+len(d) > f.readable {
				n := max(f.readable-at, 0)
				clear(d[n:])
				_, shorter := wr.Reread(d[n:], n)
				last := &wrs[len(wrs)-1].Data[0]
				*last = (*last)[:len(*last)-shorter]
			}
			at += len(wr.Data[i])
		}
	}
}

// TestMappedItem checks that a long READ's item may be a mapping. If the file
// is truncated while it is sent, the reply's results and Write list say so.
func TestMappedItem(t *testing.T) {
	f := &mappedFile{item: patternBytes(100 << 10)}
	p := &tapListener{mapped: true}
	p.onPost = f.sendMapped
	withTappedServer(t, &Server{Handler: f}, p, func(t *testing.T, r *testServer) {
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
			f.readable, f.rereadable, f.cuts = tt.there, tt.there, 0
			chunk, mem := q.writeChunk(tt.segments...)
			var l chunks.Lists
			l.AddWrite(chunk)
			q.sendCall(newMsg(l), rpcCall(testXID, ""))
			a := q.onlyAnswer()
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

		// Bytes that the owner can still read are no cut. The owner's error is
		// reported, with fewer bytes if there is no other way to report it.
		for _, tt := range []struct {
			there, more int
			want        []uint32
			body        int
		}{
			{5000, 100 << 10, []uint32{40 << 10, 40 << 10, 20 << 10}, 28},
			{5000, 50 << 10, []uint32{40 << 10, 10 << 10, 0}, 28},
			{50 << 10, 45 << 10, []uint32{40 << 10, 5 << 10, 0}, 28}, // shorter than there
			{0, 0, []uint32{0, 0, 0}, 24},
		} {
			f.readable, f.rereadable, f.cuts, f.err = tt.there, tt.more, 0, nil
			if tt.more < len(f.item) {
				f.err = unix.EIO
			}
			chunk, mem := q.writeChunk(40<<10, 40<<10, 40<<10)
			var l chunks.Lists
			l.AddWrite(chunk)
			q.sendCall(newMsg(l), rpcCall(testXID, ""))
			a := q.onlyAnswer()
			var got []uint32
			for _, s := range a.Lists.Write(0) {
				got = append(got, s.Length)
			}
			assert.Equal(t, tt.want, got)
			assert.Len(t, a.body, tt.body)
			assert.Equal(t, f.err != nil, f.cuts == 1)
			assert.Equal(t, f.item[:tt.more], mem[:tt.more])
		}
		f.err = nil

		for _, l := range []chunks.Lists{
			{},
			chunkLists(q, minMapped-1, 0),
			chunkLists(q, 1<<20, 1<<20),
		} {
			f.item = f.item[:1000]
			f.readable = -1
			q.sendCall(newMsg(l), rpcCall(testXID, ""))
			q.onlyAnswer()
			assert.False(t, f.mappable)
		}
	})
}

// chunkLists returns chunk lists with a Write chunk and a Reply chunk with the given lengths.
func chunkLists(q *requester, write, reply int) (l chunks.Lists) {
	c, _ := q.writeChunk(write)
	l.AddWrite(c)
	if reply > 0 {
		l.Reply, _ = q.writeChunk(reply)
		l.HasReply = true
	}
	return l
}
