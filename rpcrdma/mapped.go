package rpcrdma

// A data item that lies in the mapping of a file is sent from there, if it goes
// into a Write chunk. Somebody may cut the file short meanwhile. The Send behind
// the RDMA Writes has not left then, and tells of what there was:
//
//	RDMA Write ── RDMA Write ── Send
//	       │cut                  ├ lengths in the Write list
//	       └ zeros from here on  └ Reply.Cut: what the results say

// mayMap tells whether the item of a call's reply may lie in a mapping, and most
// likely does.
func (r *reader) mayMap(cl *call) bool {
	return r.mapped && cl.plan.itemRoom >= minMapped && !cl.hdr.Lists.HasReply
}

// A piece is the part of a data item that one RDMA Write carries.
type piece struct {
	cl        *call
	start     int       // in the item
	truncated func(int) // its method, bound once
}

// mapItem notes that the work requests so far carry the item out of a mapping.
func (cl *call) mapItem() {
	start := 0
	for i := range cl.wrs {
		if i == len(cl.pieces) {
			p := &piece{cl: cl}
			p.truncated = p.cut
			cl.pieces = append(cl.pieces, p)
		}
		p, wr := cl.pieces[i], &cl.wrs[i]
		p.start, wr.Truncated = start, p.truncated
		start += len(wr.Data[0])
	}
	cl.left = start
}

// cut changes the reply where n octets of the piece were left. It is called before
// the Send is looked at, with the connection's queue locked.
func (p *piece) cut(n int) {
	cl := p.cl
	if n += p.start; n >= cl.left {
		return // an earlier piece was cut
	}
	cl.left = n
	cl.rep.Cut(cl.head, n)
	cl.hdr.Lists.Write(0).Fill(uint64(n))
	cl.hdr.AppendTo(cl.out.B[:0])
}
