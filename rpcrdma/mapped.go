package rpcrdma

// A data item in a file mapping is sent from the mapping, if the item goes into
// a Write chunk. The mapping may become unreadable, because the file is
// truncated or its medium fails. Then the rest is requested from the item's
// owner. If the owner has no more either, the Send after the RDMA Writes, which
// has not been sent yet, is changed to report the shorter length:
//
//	RDMA Write ── RDMA Write ── Send
//	       │cut                  ├ lengths in the Write list
//	       └ zeros from here on  └ Reply.Cut: lengths in the results

// mayMap reports whether a call's reply item may be in a mapping, and most
// likely is.
func (r *connReader) mayMap(cl *call) bool {
	limits := cl.plan.itemLimits
	return r.mapped != nil && len(limits) > 0 && limits[0] >= minMapped && !cl.hdr.Lists.HasReply && r.mapped.SendsMapped()
}

// A mappedPiece is the part of a data item in one RDMA Write.
type mappedPiece struct {
	cl     *call
	start  int                               // offset in the item
	reread func(p []byte, at int) (int, int) // the method rereadPiece, bound once
}

// mapItem sets Reread in the work requests so far, which carry the item from a
// mapping.
func (cl *call) mapItem() {
	start := 0
	for i := range cl.wrs {
		if i == len(cl.pieces) {
			p := &mappedPiece{cl: cl}
			p.reread = p.rereadPiece
			cl.pieces = append(cl.pieces, p)
		}
		p, wr := cl.pieces[i], &cl.wrs[i]
		p.start, wr.Reread = start, p.reread
		start += len(wr.Data[0])
	}
	cl.itemLeft = start
}

// rereadPiece requests the bytes at an offset in the piece from the item's owner. If the owner has
// fewer, rereadPiece changes the reply (rdma.WR.Reread).
func (p *mappedPiece) rereadPiece(b []byte, at int) (n, shorter int) {
	cl := p.cl
	at += p.start
	if at >= cl.itemLeft {
		return 0, 0 // an earlier piece was truncated
	}
	end, err := cl.rep.Item.Reread(at, b)
	if end == at+len(b) {
		return len(b), 0
	}
	cl.itemLeft = end
	head := cl.rep.Cut(cl.sentHead, end, err)
	cl.hdr.Lists.Write(0).Fill(uint64(end))
	cl.hdr.AppendTo(cl.replyBuf.B[:0])
	return max(end-at, 0), len(cl.sentHead) - len(head)
}
