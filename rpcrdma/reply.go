package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// reply sends the RPC reply in the form that the requester provided for (RFC
// 8166, Section 3.5). Each data item goes into the Write chunk of its place, if
// there is one. The rest goes inline if it fits, otherwise into the Reply chunk.
// If a part does not fit, or the reply is longer than the handler was allowed,
// reply sends an error before anything is written. All work is posted at once
// with the Send last, because only the Send tells the requester that the data
// has arrived.
func (cl *call) reply() {
	n, apart, fits := cl.lengths()
	h := &cl.hdr
	long := cl.plan.headerLen+n > cl.conn.longest
	tooLong := apart+n > cl.plan.room+cl.plan.itemRoom
	if tooLong || !fits || long && uint64(n) > h.Lists.Reply.Length() {
		cl.refuse(h.Fail("rdma_body", wire.FixedLen, errNoRoom)) // Section 4.5.3
		return
	}

	cl.wrs, cl.iov = cl.wrs[:0], cl.iov[:0]
	cl.writeItems()
	if cl.rep.Cut != nil {
		cl.mapItem()
	}
	h.Credit = cl.conn.grant(h.Credit)
	if long {
		h.Proc = wire.NoMsg
		h.Lists.Reply.Fill(uint64(n))
		cl.rest = cl.appendRest(cl.rest[:0], cl.rep.Head)
		cl.write(h.Lists.Reply, cl.rest...)
		cl.send(h.AppendTo(cl.out.B[:0]))
	} else {
		h.Proc = wire.Msg
		h.Lists.Reply.Fill(0) // Section 4.3.3: copied, and with the length used
		head := cl.rep.Head
		whole := cl.inFront(h.AppendTo(cl.out.B[:0]), head)
		cl.head = whole[len(whole)-len(head):]
		first := len(cl.iov)
		cl.iov = cl.appendRest(cl.iov, whole)
		cl.wrs = append(cl.wrs, rdma.WR{Op: rdma.OpSend, Data: cl.iov[first:]})
	}
	cl.invalidate()
	cl.post(idReply)
}

// items returns how many data items the reply has.
func (cl *call) items() int {
	if cl.rep.Item == nil {
		return 0
	}
	return 1 + len(cl.rep.More)
}

// item returns a data item of the reply, and what follows it.
func (cl *call) item(i int) (item, tail []byte) {
	if i == 0 {
		return cl.rep.Item.B, cl.rep.Tail
	}
	p := &cl.rep.More[i-1]
	return p.Item.B, p.Tail
}

// lengths returns the lengths in bytes of the items that go into Write chunks,
// and of the rest of the reply. fits is false if an item is longer than its
// chunk.
func (cl *call) lengths() (rest, apart int, fits bool) {
	rest, fits = len(cl.rep.Head)+len(cl.rep.Tail), true
	for i := range cl.items() {
		item, tail := cl.item(i)
		if i > 0 {
			rest += len(tail)
		}
		if chunk := cl.itemChunk(i); chunk != nil {
			apart += len(item)
			fits = fits && uint64(len(item)) <= chunk.Length()
		} else {
			rest += len(item) + len(pad(len(item)))
		}
	}
	return rest, apart, fits
}

// appendRest appends the parts of the reply to v, without the items that go into
// Write chunks. head takes the place of the reply's.
func (cl *call) appendRest(v [][]byte, head []byte) [][]byte {
	v = append(v, head)
	items := cl.items()
	if items == 0 && len(cl.rep.Tail) > 0 {
		return append(v, cl.rep.Tail)
	}
	for i := range items {
		item, tail := cl.item(i)
		if cl.itemChunk(i) == nil {
			v = append(v, item, pad(len(item)))
		}
		if len(tail) > 0 {
			v = append(v, tail)
		}
	}
	return v
}

// writeItems appends the RDMA Writes of the items that go into Write chunks. It
// sets the lengths of the Write list to the returned ones: nothing in a chunk
// without an item (RFC 8166, Sections 3.4.6 and 4.3.2.2; RFC 8267, Section
// 6.4.1).
func (cl *call) writeItems() {
	items := cl.items()
	if cl.rep.Whole {
		items = 0
	}
	for i := range cl.hdr.Lists.Writes() {
		var item []byte
		if i < items {
			item, _ = cl.item(i)
		}
		chunk := cl.hdr.Lists.Write(i)
		chunk.Fill(uint64(len(item)))
		cl.write(chunk, item)
	}
}

// write appends RDMA Writes that fill the chunk with the concatenated parts.
// The lengths of the chunk's segments must already be the ones to return, and
// add up to the length of all parts.
func (cl *call) write(c chunks.Chunk, parts ...[]byte) {
	for _, s := range c {
		if s.Length == 0 {
			continue
		}
		first := len(cl.iov)
		for left := int(s.Length); left > 0; {
			n := min(left, len(parts[0]))
			cl.iov = append(cl.iov, parts[0][:n])
			left -= n
			if parts[0] = parts[0][n:]; len(parts[0]) == 0 {
				parts = parts[1:]
			}
		}
		cl.wrs = append(cl.wrs, rdma.WR{
			Op:     rdma.OpWrite,
			Data:   cl.iov[first:],
			Remote: rdma.Remote{STag: rdma.STag(s.Handle), TO: s.Offset},
		})
	}
}

// inFront returns header and head as one slice. If the head still is behind the
// room for the header, nothing is copied. Otherwise the handler has substituted
// a slice of its own, and inFront copies the head.
func (cl *call) inFront(header, head []byte) []byte {
	whole := cl.out.B[:len(header)+len(head)]
	if len(head) > 0 && &head[0] != &whole[len(header)] {
		copy(whole[len(header):], head)
	}
	return whole
}

// send appends a Send of a header alone.
func (cl *call) send(header []byte) {
	cl.iov = append(cl.iov, header)
	cl.wrs = append(cl.wrs, rdma.WR{Op: rdma.OpSend, Data: cl.iov[len(cl.iov)-1:]})
}

// invalidate makes the Send invalidate the memory of the call, if the peer
// supports that and all chunks of the call have one handle. With two handles,
// one could be of memory that must stay registered, such as Linux's memory for
// padding (RFC 8797, Section 4.1).
func (cl *call) invalidate() {
	if cl.conn.invalidate && cl.plan.oneHandle {
		wr := &cl.wrs[len(cl.wrs)-1]
		wr.WithInvalidate, wr.Invalidate = true, rdma.STag(cl.plan.handle)
	}
}
