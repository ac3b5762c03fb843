package rpcrdma

// A data item in the mapping of a file is sent from the mapping, if the item
// goes into a Write chunk. The mapping may become unreadable, because the file
// is truncated or its medium fails. Then the item's owner is asked for the
// rest. If the owner has no more either, the Send behind the RDMA Writes, which
// has not left yet, is changed to report the shorter length:
//
//	RDMA Write ── RDMA Write ── Send
//	       │cut                  ├ lengths in the Write list
//	       └ zeros from here on  └ Reply.Cut: what the results say

// mayMap reports whether the item of a call's reply may be in a mapping, and
// most likely is.
func (r *reader) mayMap(cl *call) bool {
	rooms := cl.plan.rooms
	return r.mapped && len(rooms) > 0 && rooms[0] >= minMapped && !cl.hdr.Lists.HasReply
}

// A piece is the part of a data item that one RDMA Write carries.
type piece struct {
	cl     *call
	start  int                               // in the item
	reread func(p []byte, at int) (int, int) // the method read, bound once
}

// mapItem notes that the work requests so far carry the item out of a mapping.
func (cl *call) mapItem() {
	start := 0
	for i := range cl.wrs {
		if i == len(cl.pieces) {
			p := &piece{cl: cl}
			p.reread = p.read
			cl.pieces = append(cl.pieces, p)
		}
		p, wr := cl.pieces[i], &cl.wrs[i]
		p.start, wr.Reread = start, p.reread
		start += len(wr.Data[0])
	}
	cl.left = start
}

// read asks the item's owner for the bytes at an offset of the piece. If the
// owner has fewer, read changes the reply (rdma.WR.Reread).
func (p *piece) read(b []byte, at int) (n, shorter int) {
	cl := p.cl
	at += p.start
	if at >= cl.left {
		return 0, 0 // an earlier piece was cut
	}
	end, err := cl.rep.Item.Reread(at, b)
	if end == at+len(b) {
		return len(b), 0
	}
	cl.left = end
	head := cl.rep.Cut(cl.head, end, err)
	cl.hdr.Lists.Write(0).Fill(uint64(end))
	cl.hdr.AppendTo(cl.out.B[:0])
	return max(end-at, 0), len(cl.head) - len(head)
}
