package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// Indexes of call.pulled.
const (
	pullMsg   = iota // the RPC message without its data items
	pullItems        // a lone data item, or the whole message with several in their places
)

// pull reads the call's chunks, if it has any, and then has the call served. A
// lone data item gets a buffer of its own, separate from the message. Several
// items are read into their places in one buffer for the whole message.
func (cl *call) pull() {
	p := &cl.plan
	if p.zero {
		cl.read(&p.reads[0], pullMsg, 0)
	}
	for i := range p.items() {
		item, at := &p.items()[i], 0
		if len(p.items()) > 1 {
			at = int(item.Position)
		}
		cl.read(item, pullItems, at)
	}
	if len(cl.wrs) == 0 {
		cl.conn.srv.calls.submit(cl)
		return
	}
	cl.post(idPull)
}

// read appends the RDMA Reads of a chunk's segments, in their order, into
// pulled[i] from at on (RFC 8166, Section 3.4.5).
func (cl *call) read(c *chunks.ReadChunk, i, at int) {
	for _, s := range c.Segments {
		if s.Length == 0 {
			continue
		}
		cl.sinks = append(cl.sinks, sink{cl, i, at, int(s.Length)})
		at += int(s.Length)
		cl.wrs = append(cl.wrs, rdma.WR{
			Op:     rdma.OpRead,
			Sink:   &cl.sinks[len(cl.sinks)-1],
			Remote: rdma.Remote{STag: rdma.STag(s.Handle), TO: s.Offset},
		})
	}
}

// A sink is the destination of one segment: n bytes, from at on of pulled[i].
// It lends the memory only when the bytes arrive (rdma.LazyBuffer). If a
// requester has many WRITEs under way, memory lent earlier would have left the
// caches.
type sink struct {
	cl       *call
	i, at, n int
}

func (s *sink) Len() int     { return s.n }
func (s *sink) Lend() []byte { return s.cl.pulls(s.i)[s.at:][:s.n:s.n] }

// pulls returns the bytes of pulled[i], lending the buffer at the first call.
func (cl *call) pulls(i int) []byte {
	if cl.pulled[i] == nil {
		cl.pulled[i] = buf.Default.Get(cl.plan.pullLen(i))
	}
	return cl.pulled[i].B
}

// pullLen returns the length of pulled[i].
func (p *plan) pullLen(i int) int {
	switch items := p.items(); {
	case i == pullMsg:
		return p.msgLen
	case len(items) == 1:
		return int(items[0].Length)
	default:
		return p.whole
	}
}

// assemble makes the request from the received message and the pulled chunks.
func (cl *call) assemble() {
	p, req := &cl.plan, &cl.req
	req.Msg = cl.body
	if p.zero {
		req.Msg = cl.pulls(pullMsg)
	}
	switch items := p.items(); len(items) {
	case 0:
	case 1:
		req.Item, req.ItemPos = cl.pulls(pullItems), int(items[0].Position)
	default:
		chunks.Weave(cl.pulls(pullItems), req.Msg, items)
		req.Msg = cl.pulls(pullItems)
		for i := range items {
			p.places = append(p.places, xdr.Place{Pos: int(items[i].Position), Len: int(items[i].Length)})
		}
		req.Places = p.places
	}
}
