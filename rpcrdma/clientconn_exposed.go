package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// resultAccess is the access to memory for results. Its other content is scratch:
// only the length that the reply reports as written is read.
const resultAccess = rdma.RemoteWrite | rdma.Scratch

// An exposedMemory is memory that a call exposes to the server: the caller's, or the call's own
// buffer. The zero value exposes nothing.
type exposedMemory struct {
	region rdma.Region // nil: not registered
	mem    []byte
	access rdma.Access
	ownBuf *buf.Buf    // the buffer that holds mem; nil: mem is the caller's
	placer rdma.Placer // the region after deregister; nil if it is no Placer
}

// register exposes mem, which is the caller's memory or own's.
func (e *exposedMemory) register(c rdma.Conn, mem []byte, own *buf.Buf, access rdma.Access) error {
	e.mem, e.ownBuf, e.access = mem, own, access
	var err error
	e.region, err = c.Register(mem, access)
	return err
}

// chunkSegment returns the memory as a chunk segment.
func (e *exposedMemory) chunkSegment() chunks.Segment {
	return chunks.Segment{Handle: uint32(e.region.STag()), Length: uint32(len(e.mem)), Offset: e.region.TO()}
}

// deregister revokes the server's access.
func (e *exposedMemory) deregister() {
	if e.region != nil {
		e.region.Deregister()
		e.placer, _ = e.region.(rdma.Placer)
		e.region = nil
	}
}

// isWritten reports whether the server has written the first n bytes, as far as the provider knows.
// It must be called after deregister.
func (e *exposedMemory) isWritten(n int) bool { return e.placer == nil || e.placer.Placed(n) }

// returnMemory returns the caller's memory to the caller while the server may still use the
// advertised STag. A buffer takes the memory's place, with the same bytes if the server may read
// them. A server cannot know that no one waits for its reply (RFC 8166, Section 4.4.1), and an
// access through an invalid STag would terminate the connection, with all other calls. If the
// provider cannot remap, returnMemory deregisters the region and accepts that loss.
func (e *exposedMemory) returnMemory() {
	if e.region == nil || e.ownBuf != nil {
		return
	}
	r, ok := e.region.(rdma.Remapper)
	if !ok {
		e.deregister()
		return
	}
	e.ownBuf = buf.Default.Get(len(e.mem))
	if e.access == rdma.RemoteRead {
		copy(e.ownBuf.B, e.mem)
	} else {
		clear(e.ownBuf.B)
	}
	r.Remap(e.ownBuf.B)
	e.mem = e.ownBuf.B
}

// releaseBuffer releases the call's own buffer. It must be called after
// deregister.
func (e *exposedMemory) releaseBuffer() {
	if e.ownBuf != nil {
		e.ownBuf.Release()
	}
	*e = exposedMemory{}
}
