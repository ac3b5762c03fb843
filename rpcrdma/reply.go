package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
)

// reply sends the RPC reply in the form that the requester provided for (RFC
// 8166, Section 3.5). The data item goes into the first Write chunk, if there
// is one. The rest goes inline if it fits, otherwise into the Reply chunk. If a
// part does not fit, or the reply is longer than the handler was allowed, reply
// sends an error before anything is written. All work is posted at once with
// the Send last, because only the Send tells the requester that the data has
// arrived.
func (cl *call) reply() {
	var item, beside []byte // the data item: in a Write chunk, or in the message
	if cl.rep.Item != nil {
		beside = cl.rep.Item.B
	}
	chunk := cl.itemChunk()
	if chunk != nil {
		item, beside = beside, nil
	}
	head, padding, tail := cl.rep.Head, pad(len(beside)), cl.rep.Tail
	n := len(head) + len(beside) + len(padding) + len(tail)
	h := &cl.hdr
	long := cl.plan.headerLen+n > cl.conn.longest
	tooLong := len(item)+n > cl.plan.room+cl.plan.itemRoom
	if tooLong || uint64(len(item)) > chunk.Length() || long && uint64(n) > h.Lists.Reply.Length() {
		cl.refuse(h.Fail("rdma_body", wire.FixedLen, errNoRoom)) // Section 4.5.3
		return
	}

	cl.wrs, cl.iov = cl.wrs[:0], cl.iov[:0]
	cl.returnWrites(len(item))
	cl.write(chunk, item)
	if cl.rep.Cut != nil {
		cl.mapItem()
	}
	h.Credit = cl.conn.grant(h.Credit)
	if long {
		h.Proc = wire.NoMsg
		h.Lists.Reply.Fill(uint64(n))
		cl.write(h.Lists.Reply, head, beside, padding, tail)
		cl.send(h.AppendTo(cl.out.B[:0]))
	} else {
		h.Proc = wire.Msg
		h.Lists.Reply.Fill(0) // Section 4.3.3: copied, and with the length used
		whole := cl.inFront(h.AppendTo(cl.out.B[:0]), head)
		cl.head = whole[len(whole)-len(head):]
		cl.send(whole, beside, padding, tail)
	}
	cl.invalidate()
	cl.post(idReply)
}

// returnWrites sets the lengths of the Write list to the returned ones: n bytes
// in the chunk for the data item, and nothing in the others (RFC 8166, Sections
// 3.4.6 and 4.3.2.2).
func (cl *call) returnWrites(n int) {
	for i := range cl.hdr.Lists.Writes() {
		cl.hdr.Lists.Write(i).Fill(uint64(n))
		n = 0
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

// send appends a Send of parts.
func (cl *call) send(parts ...[]byte) {
	first := len(cl.iov)
	cl.iov = append(cl.iov, parts...)
	cl.wrs = append(cl.wrs, rdma.WR{Op: rdma.OpSend, Data: cl.iov[first:]})
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
