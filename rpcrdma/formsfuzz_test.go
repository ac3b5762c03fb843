package rpcrdma

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fuzzChoices are decisions taken from fuzzed bytes.
type fuzzChoices []byte

// choose returns a number below limit, 0 when the bytes are used up.
func (d *fuzzChoices) choose(limit int) int {
	v := 0
	for range 2 {
		if len(*d) > 0 {
			v, *d = v<<8|int((*d)[0]), (*d)[1:]
		}
	}
	return v % limit
}

// splitLength returns lengths that sum to n bytes, some perhaps 0.
func (d *fuzzChoices) splitLength(n int) (lengths []int) {
	for range d.choose(5) {
		part := d.choose(n + 1)
		lengths, n = append(lengths, part), n-part
	}
	return append(lengths, n)
}

func addSeeds(f *testing.F) {
	random := rand.New(rand.NewPCG(8166, 35))
	for range 100 {
		b := make([]byte, 80)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		f.Add(b)
	}
}

// A drawnCall is a message, and its form on the wire.
type drawnCall struct {
	whole []byte // unreduced
	hdr   wire.Header
	body  []byte
	moved int // items
}

// drawCall draws a message with words and items; some items come in chunks.
// Each chunk is cut anywhere and has padding or not. The list has all chunks'
// segments in any order that keeps each chunk's order.
func drawCall(q *requester, d *fuzzChoices) (c drawnCall) {
	c.whole = rpcCall(testXID, "")
	reduced := bytes.Clone(c.whole)
	var lists [][]chunks.ReadSegment
	for range d.choose(4) {
		item := patternBytes(d.choose(300))
		word := xdr.AppendUint32(nil, uint32(len(item)))
		c.whole, reduced = append(c.whole, word...), append(reduced, word...)
		padded := xdr.AppendFixed(nil, item)
		if d.choose(3) == 0 {
			reduced = append(reduced, padded...)
		} else {
			if d.choose(2) == 0 {
				item = padded
			}
			lists = append(lists, q.readSegments(uint32(len(c.whole)), item, d.splitLength(len(item))...))
			c.moved++
		}
		c.whole = append(c.whole, padded...)
	}
	if d.choose(2) == 0 {
		c.hdr, c.body = newMsg(chunks.Lists{}), reduced
	} else {
		c.hdr = newNoMsg(chunks.Lists{})
		lists = append(lists, q.readSegments(0, reduced, d.splitLength(len(reduced))...))
	}
	for len(lists) > 0 {
		i := d.choose(len(lists))
		c.hdr.Lists.Reads = append(c.hdr.Lists.Reads, lists[i][0])
		if lists[i] = lists[i][1:]; len(lists[i]) == 0 {
			lists = append(lists[:i], lists[i+1:]...)
		}
	}
	return c
}

// FuzzCallForms sends a message in any possible form, and checks that it
// arrives whole (R8166-3.4.5-4, R8166-3.4.4-1, R8166-3.4.5.2-2,
// R8166-3.4.5.2-3, R8166-3.5.2-1, R8166-3.5.3-3, R8166-4-2).
func FuzzCallForms(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var rec requestRecorder
		withServer(t, &Server{Handler: &rec}, func(t *testing.T, r *testServer) {
			q, d := r.dialLinux(), fuzzChoices(b)
			c := drawCall(q, &d)
			q.sendCall(c.hdr, c.body)
			assert.Equal(t, wire.Msg, q.onlyAnswer().Proc)
			req := rec.onlyRequest(t)
			got := req.Msg
			if req.Item != nil {
				got = bytes.Clone(req.Msg[:req.ItemPos])
				got = append(append(got, req.Item...), padding(len(req.Item))...)
				got = append(got, req.Msg[req.ItemPos:]...)
			}
			assert.Equal(t, c.whole, got)
			assert.Equal(t, c.moved == 1, req.Item != nil, "one item is placed, and not copied")
			if c.moved > 1 {
				assert.Len(t, req.Places, c.moved)
			} else {
				assert.Empty(t, req.Places)
			}
		})
	})
}

// A drawnOffer is a requester's offer for a reply.
type drawnOffer struct {
	lists chunks.Lists
	mems  [][]byte // for the Write chunks, and the Reply chunk, if any
}

func drawOffer(q *requester, d *fuzzChoices) (o drawnOffer) {
	chunk := func(most int) chunks.Chunk {
		var n []int
		for range d.choose(4) {
			n = append(n, d.choose(most))
		}
		c, mem := q.writeChunk(n...)
		o.mems = append(o.mems, mem)
		return c
	}
	for range d.choose(4) {
		o.lists.AddWrite(chunk(3000))
	}
	if o.lists.HasReply = d.choose(2) == 0; o.lists.HasReply {
		o.lists.Reply = chunk(4000)
	}
	return o
}

// takeChunk checks that a chunk came back as offered, except for the lengths,
// and that its other memory is untouched. It returns the written bytes.
func takeChunk(t *testing.T, offered, returned chunks.Chunk, mem []byte) (data []byte) {
	require.Len(t, returned, len(offered)) // R8166-3.4.6-2, R8166-4.3.3-3
	full := true
	for i, s := range returned {
		n := offered[i].Length
		assert.LessOrEqual(t, s.Length, n)
		assert.True(t, full || s.Length == 0, "in order, each to its end")
		full = full && s.Length == n
		data = append(data, mem[:s.Length]...)
		assertUntouched(t, mem[s.Length:n])
		mem = mem[n:]
		s.Length = n
		assert.Equal(t, offered[i], s)
	}
	return data
}

// FuzzReplyForms draws a reply and an offer, and reassembles the reply from the
// returned lists: the item in the first Write chunk if that has segments, the
// rest inline if it fits, otherwise in the Reply chunk. If the reply has no
// room, it expects ERR_CHUNK, and nothing written (R8166-4.3.2-1,
// R8166-3.5.3-4, R8166-4.3.2.3-1, R8166-4.3.2.3-2, R8166-4.3.3-2,
// R8166-4.5.3-1).
func FuzzReplyForms(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		d := fuzzChoices(b)
		var item []byte
		head, tail := string(patternBytes(4*d.choose(1200))), string(patternBytes(4*d.choose(30)))
		if d.choose(3) > 0 {
			item = patternBytes(d.choose(5000))
		}
		withServer(t, &Server{Handler: fixedResults(head, item, tail)}, func(t *testing.T, r *testServer) {
			q := r.dialLinux()
			o := drawOffer(q, &d)
			q.sendCall(newMsg(o.lists), rpcCall(testXID, ""))
			a := q.onlyAnswer()

			rest := string(appendSuccess(nil, testXID)) + head
			apart := o.lists.Writes() > 0 && len(o.lists.Write(0)) > 0
			if !apart {
				rest += string(xdr.AppendFixed(nil, item))
			}
			rest += tail
			inline := wire.FixedLen+o.lists.Len()+len(rest) <= 4096
			fits := inline || o.lists.HasReply && o.lists.Reply.Length() >= uint64(len(rest))
			if apart && o.lists.Write(0).Length() < uint64(len(item)) || !fits {
				require.Equal(t, wire.Error, a.Proc)
				assert.Equal(t, wire.ErrChunk, a.Code)
				for _, mem := range o.mems {
					assertUntouched(t, mem)
				}
				return
			}
			require.Equal(t, o.lists.Writes(), a.Lists.Writes())
			require.Equal(t, o.lists.HasReply, a.Lists.HasReply)
			for i := range o.lists.Writes() {
				data := takeChunk(t, o.lists.Write(i), a.Lists.Write(i), o.mems[i])
				if apart && i == 0 {
					assert.Equal(t, string(item), string(data))
				} else {
					assert.Empty(t, data)
				}
			}
			got := string(a.body)
			if o.lists.HasReply {
				data := takeChunk(t, o.lists.Reply, a.Lists.Reply, o.mems[len(o.mems)-1])
				assert.Equal(t, !inline, len(data) > 0)
				got += string(data)
			}
			assert.Equal(t, inline, a.Proc == wire.Msg)
			assert.Equal(t, rest, got)
		})
	})
}
