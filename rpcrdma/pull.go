package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// Indexes for call.pulled.
const (
	pullMsg   = iota // the RPC message without its data items
	pullItems        // a single data item, or the whole message with several in their places
)

// pullChunks reads the call's chunks, if any, and then has the call served. A single data item gets
// its own buffer, separate from the message. Several items are read into their places in one buffer
// for the whole message.
func (cl *call) pullChunks() {
	p := &cl.plan
	if p.positionZero {
		cl.appendReads(&p.reads[0], pullMsg, 0)
	}
	for i := range p.itemChunks() {
		item, at := &p.itemChunks()[i], 0
		if len(p.itemChunks()) > 1 {
			at = int(item.Position)
		}
		cl.appendReads(item, pullItems, at)
	}
	if len(cl.wrs) == 0 {
		cl.conn.srv.calls.submit(cl)
		return
	}
	cl.postWork(idPull)
}

// appendReads appends RDMA Reads for a chunk's segments, in order, into
// pulled[i] from offset at on (RFC 8166, Section 3.4.5).
func (cl *call) appendReads(c *chunks.ReadChunk, i, at int) {
	for _, s := range c.Segments {
		if s.Length == 0 {
			continue
		}
		cl.sinks = append(cl.sinks, readSink{cl, i, at, int(s.Length)})
		at += int(s.Length)
		cl.wrs = append(cl.wrs, rdma.WR{
			Op:     rdma.OpRead,
			Sink:   &cl.sinks[len(cl.sinks)-1],
			Remote: rdma.Remote{STag: rdma.STag(s.Handle), TO: s.Offset},
		})
	}
}

// A readSink is the destination for one segment: n bytes at an offset in
// pulled[i]. It lends the memory only when the bytes arrive (rdma.LazyBuffer).
// If a requester has many WRITEs in flight, memory allocated earlier would have
// left the caches.
type readSink struct {
	cl           *call
	i, offset, n int
}

func (s *readSink) Len() int     { return s.n }
func (s *readSink) Lend() []byte { return s.cl.pulledBytes(s.i)[s.offset:][:s.n:s.n] }

// pulledBytes returns pulled[i]'s bytes, allocating the buffer at the first call.
func (cl *call) pulledBytes(i int) []byte {
	if cl.pulled[i] == nil {
		cl.pulled[i] = buf.Default.Get(cl.plan.pullLen(i))
	}
	return cl.pulled[i].B
}

// pullLen returns the length for pulled[i].
func (p *plan) pullLen(i int) int {
	switch items := p.itemChunks(); {
	case i == pullMsg:
		return p.msgLen
	case len(items) == 1:
		return int(items[0].Length)
	default:
		return p.wholeLen
	}
}

// assembleRequest builds the request from the received message and the pulled chunks.
func (cl *call) assembleRequest() {
	p, req := &cl.plan, &cl.req
	req.Msg = cl.body
	if p.positionZero {
		req.Msg = cl.pulledBytes(pullMsg)
	}
	switch items := p.itemChunks(); len(items) {
	case 0:
	case 1:
		req.Item, req.ItemPos = cl.pulledBytes(pullItems), int(items[0].Position)
	default:
		chunks.Weave(cl.pulledBytes(pullItems), req.Msg, items)
		req.Msg = cl.pulledBytes(pullItems)
		for i := range items {
			p.places = append(p.places, xdr.Place{Pos: int(items[i].Position), Len: int(items[i].Length)})
		}
		req.Places = p.places
	}
}
