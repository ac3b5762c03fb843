package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// forResults is the access to memory for results. Its other content is scratch:
// only the length that the reply reports as written is read.
const forResults = rdma.RemoteWrite | rdma.Scratch

// An exposed is memory that a call lets the server reach: the caller's, or a
// buffer of the call's own. The zero value exposes nothing.
type exposed struct {
	region rdma.Region // nil: not open, or closed
	mem    []byte
	access rdma.Access
	own    *buf.Buf    // the buffer of mem; nil: mem is the caller's
	placer rdma.Placer // the region after close; nil if the provider is no Placer
}

// open exposes the caller's memory, or all of own.
func (e *exposed) open(c rdma.Conn, mem []byte, own *buf.Buf, access rdma.Access) error {
	e.mem, e.own, e.access = mem, own, access
	var err error
	e.region, err = c.Register(mem, access)
	return err
}

// segment returns the memory as the segment of a chunk.
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

// holds reports whether the server has written the first n bytes, as far as the
// provider knows. It must be called after close.
func (e *exposed) holds(n int) bool { return e.placer == nil || e.placer.Placed(n) }

// handOver returns the caller's memory to the caller while the server may still
// use the advertised STag. A buffer takes the memory's place, with the same
// bytes if the server may read them. A server cannot know that nobody waits for
// its reply (RFC 8166, Section 4.4.1), and an access by a dead STag would cost
// it and all other calls the connection. If the provider cannot remap, handOver
// closes the region and accepts that loss.
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

// giveUp releases the call's own buffer. It must be called after close.
func (e *exposed) giveUp() {
	if e.own != nil {
		e.own.Release()
	}
	*e = exposed{}
}
