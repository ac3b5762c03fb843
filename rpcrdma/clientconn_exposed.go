package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// forResults is the access to memory that results are written to. What else it
// holds counts for nothing: nobody looks at more of it than the reply says was
// written.
const forResults = rdma.RemoteWrite | rdma.Scratch

// What is exposed is memory that a call lets the server reach: the caller's, or
// a buffer of the call's own. The zero value is none.
type exposed struct {
	region rdma.Region // nil: none, or not any more
	mem    []byte
	access rdma.Access
	own    *buf.Buf    // what mem is of; nil: it is the caller's
	placer rdma.Placer // region when it is closed; nil where it does not know
}

// open exposes the caller's memory, or all of own.
func (e *exposed) open(c rdma.Conn, mem []byte, own *buf.Buf, access rdma.Access) error {
	e.mem, e.own, e.access = mem, own, access
	var err error
	e.region, err = c.Register(mem, access)
	return err
}

// segment returns what is said of it in a chunk of one segment.
func (e *exposed) segment() chunks.Segment {
	return chunks.Segment{Handle: uint32(e.region.STag()), Length: uint32(len(e.mem)), Offset: e.region.TO()}
}

// close ends the server's access.
func (e *exposed) close() {
	if e.region != nil {
		e.region.Deregister()
		e.placer, _ = e.region.(rdma.Placer)
		e.region = nil
	}
}

// holds tells whether the server has written the first n octets, as far as the provider
// knows. The access to it has ended.
func (e *exposed) holds(n int) bool { return e.placer == nil || e.placer.Placed(n) }

// handOver gives the caller its memory back while the server may still use what
// it was told of: a buffer takes its place, with the same octets if the server
// may read them. A server cannot know that nobody waits for its reply (RFC 8166,
// Section 4.4.1), and an STag that is dead by the time it gets there would cost it
// and all other calls the connection. That is what happens where the provider
// cannot exchange memory.
func (e *exposed) handOver() {
	if e.region == nil || e.own != nil {
		return
	}
	r, ok := e.region.(rdma.Remapper)
	if !ok {
		e.close()
		return
	}
	e.own = buf.Default.Get(len(e.mem))
	if e.access == rdma.RemoteRead {
		copy(e.own.B, e.mem)
	} else {
		clear(e.own.B)
	}
	r.Remap(e.own.B)
	e.mem = e.own.B
}

// giveUp releases the call's own buffer. The access to it has ended.
func (e *exposed) giveUp() {
	if e.own != nil {
		e.own.Release()
	}
	*e = exposed{}
}
