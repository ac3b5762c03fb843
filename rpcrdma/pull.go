package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// pull reads the call's chunks, if it has any, and then has it served. A lone
// data item gets a buffer of its own and stays apart from the message. Several
// are read into their places in one buffer for the whole message.
func (cl *call) pull() {
	p := &cl.plan
	if p.zero {
		cl.pulled[0] = buf.Default.Get(p.msgLen)
		cl.read(&p.reads[0], cl.pulled[0].B)
	}
	switch items := p.items(); len(items) {
	case 0:
	case 1:
		cl.pulled[1] = buf.Default.Get(int(items[0].Length))
		cl.read(&items[0], cl.pulled[1].B)
	default:
		cl.pulled[1] = buf.Default.Get(p.whole)
		for i := range items {
			cl.read(&items[i], cl.pulled[1].B[items[i].Position:])
		}
	}
	if len(cl.wrs) == 0 {
		cl.conn.srv.calls.submit(cl)
		return
	}
	cl.post(idPull)
}

// read appends the RDMA Reads of a chunk's segments, in their order, to the
// start of dst (RFC 8166, Section 3.4.5).
func (cl *call) read(c *chunks.ReadChunk, dst []byte) {
	for _, s := range c.Segments {
		if s.Length == 0 {
			continue
		}
		cl.iov = append(cl.iov, dst[:s.Length:s.Length])
		dst = dst[s.Length:]
		cl.wrs = append(cl.wrs, rdma.WR{
			Op:     rdma.OpRead,
			Data:   cl.iov[len(cl.iov)-1:],
			Remote: rdma.Remote{STag: rdma.STag(s.Handle), TO: s.Offset},
		})
	}
}

// assemble makes the request of what was received and what was read.
func (cl *call) assemble() {
	p, req := &cl.plan, &cl.req
	req.Msg = cl.body
	if p.zero {
		req.Msg = cl.pulled[0].B
	}
	switch items := p.items(); len(items) {
	case 0:
	case 1:
		req.Item, req.ItemPos = cl.pulled[1].B, int(items[0].Position)
	default:
		chunks.Weave(cl.pulled[1].B, req.Msg, items)
		req.Msg = cl.pulled[1].B
		for i := range items {
			p.places = append(p.places, xdr.Place{Pos: int(items[i].Position), Len: int(items[i].Length)})
		}
		req.Places = p.places
	}
}
