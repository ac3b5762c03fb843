package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// sendReply sends the RPC reply in the form that the requester provided for
// (RFC 8166, Section 3.5). Each data item goes into the corresponding Write
// chunk, if there is one. The rest goes inline if it fits, otherwise into the
// Reply chunk. If a part does not fit, or the reply is longer than the handler
// was allowed, sendReply sends an error before anything is written. All work is
// posted together with the Send last, because only the Send tells the requester
// that the data has arrived.
func (cl *call) sendReply() {
	n, apart, fits := cl.replyLengths()
	h := &cl.hdr
	long := cl.plan.headerLen+n > cl.conn.maxSend
	tooLong := apart+n > cl.plan.maxReply+cl.plan.itemTotal
	if tooLong || !fits || long && uint64(n) > h.Lists.Reply.Length() {
		cl.rejectCall(h.Fail("rdma_body", wire.FixedLen, errReplyTooLong)) // Section 4.5.3
		return
	}

	cl.wrs, cl.iov = cl.wrs[:0], cl.iov[:0]
	cl.writeItems()
	if cl.rep.Cut != nil {
		cl.mapItem()
	}
	h.Credit = cl.conn.grantCredits(h.Credit)
	if long {
		h.Proc = wire.NoMsg
		h.Lists.Reply.Fill(uint64(n))
		cl.restParts = cl.appendRest(cl.restParts[:0], cl.rep.Head)
		cl.appendWrites(h.Lists.Reply, cl.restParts...)
		cl.appendSend(h.AppendTo(cl.replyBuf.B[:0]))
	} else {
		h.Proc = wire.Msg
		h.Lists.Reply.Fill(0) // Section 4.3.3: copied, and with the length used
		head := cl.rep.Head
		whole := cl.joinHeader(h.AppendTo(cl.replyBuf.B[:0]), head)
		cl.sentHead = whole[len(whole)-len(head):]
		first := len(cl.iov)
		cl.iov = cl.appendRest(cl.iov, whole)
		cl.wrs = append(cl.wrs, rdma.WR{Op: rdma.OpSend, Data: cl.iov[first:]})
	}
	cl.setInvalidate()
	cl.postWork(idReply)
}

// itemCount returns the number of data items in the reply.
func (cl *call) itemCount() int {
	if cl.rep.Item == nil {
		return 0
	}
	return 1 + len(cl.rep.More)
}

// itemAt returns the reply's data item i, and what follows it.
func (cl *call) itemAt(i int) (item, tail []byte) {
	if i == 0 {
		return cl.rep.Item.B, cl.rep.Tail
	}
	p := &cl.rep.More[i-1]
	return p.Item.B, p.Tail
}

// replyLengths returns the length of the reply without the items that go into Write chunks, and the
// total length of those items, in bytes. fits is false if an item is longer than its chunk.
func (cl *call) replyLengths() (rest, apart int, fits bool) {
	rest, fits = len(cl.rep.Head)+len(cl.rep.Tail), true
	for i := range cl.itemCount() {
		item, tail := cl.itemAt(i)
		if i > 0 {
			rest += len(tail)
		}
		if chunk := cl.itemChunk(i); chunk != nil {
			apart += len(item)
			fits = fits && uint64(len(item)) <= chunk.Length()
		} else {
			rest += len(item) + len(padding(len(item)))
		}
	}
	return rest, apart, fits
}

// appendRest appends the reply's parts to v, without the items that go into
// Write chunks. head replaces the reply's head.
func (cl *call) appendRest(v [][]byte, head []byte) [][]byte {
	v = append(v, head)
	items := cl.itemCount()
	if items == 0 && len(cl.rep.Tail) > 0 {
		return append(v, cl.rep.Tail)
	}
	for i := range items {
		item, tail := cl.itemAt(i)
		if cl.itemChunk(i) == nil {
			v = append(v, item, padding(len(item)))
		}
		if len(tail) > 0 {
			v = append(v, tail)
		}
	}
	return v
}

// writeItems appends RDMA Writes for the items that go into Write chunks. It
// sets the Write list's lengths to the returned ones: zero in a chunk without
// an item (RFC 8166, Sections 3.4.6 and 4.3.2.2; RFC 8267, Section 6.4.1).
func (cl *call) writeItems() {
	items := cl.itemCount()
	if cl.rep.Whole {
		items = 0
	}
	for i := range cl.hdr.Lists.Writes() {
		var item []byte
		if i < items {
			item, _ = cl.itemAt(i)
		}
		chunk := cl.hdr.Lists.Write(i)
		chunk.Fill(uint64(len(item)))
		cl.appendWrites(chunk, item)
	}
}

// appendWrites appends RDMA Writes that fill the chunk with the concatenated parts. The chunk's
// segment lengths must already be the ones to return, and add up to the parts' total length.
func (cl *call) appendWrites(c chunks.Chunk, parts ...[]byte) {
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

// joinHeader returns header and head as one slice. If the head still follows the header's space,
// nothing is copied. Otherwise the handler has substituted its own slice, and joinHeader copies the
// head.
func (cl *call) joinHeader(header, head []byte) []byte {
	whole := cl.replyBuf.B[:len(header)+len(head)]
	if len(head) > 0 && &head[0] != &whole[len(header)] {
		copy(whole[len(header):], head)
	}
	return whole
}

// appendSend appends a Send that contains only a header.
func (cl *call) appendSend(header []byte) {
	cl.iov = append(cl.iov, header)
	cl.wrs = append(cl.wrs, rdma.WR{Op: rdma.OpSend, Data: cl.iov[len(cl.iov)-1:]})
}

// setInvalidate makes the Send invalidate the call's memory, if the peer
// supports that and all the call's chunks have one handle. With two handles,
// one could belong to memory that must stay registered, such as Linux's memory
// for padding (RFC 8797, Section 4.1).
func (cl *call) setInvalidate() {
	if cl.conn.invalidate && cl.plan.oneHandle {
		wr := &cl.wrs[len(cl.wrs)-1]
		wr.WithInvalidate, wr.Invalidate = true, rdma.STag(cl.plan.handle)
	}
}
