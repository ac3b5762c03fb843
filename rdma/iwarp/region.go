package iwarp

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A region is memory that a peer may access. Its STag is bound to one Stream,
// or to a Protection Domain. In a domain, each connection has its own view of
// the region, which tracks that connection's pins.
type region struct {
	conn   *Conn             // the Stream, or nil
	domain *ProtectionDomain // or nil
	stag   rdma.STag
	size   int // length of mem
	access rdma.Access

	// In a scratch region the bytes that the peer has not written are
	// undefined; top is the end of the written bytes. The reader owns these
	// fields. Others may read them when the region is dead and has no pins.
	scratch bool
	top     uint64
	written writtenRanges

	mu       sync.Mutex
	mem      []byte            // access only through pin
	views    map[*Conn]*region // if domain is set
	dead     bool
	pins     int           // segments being placed, and responses not yet sent
	unpinned chan struct{} // closed when the last pin is released; nil: no waiter
}

// Register gives the peer access to b. Tagged offsets start at 0, so that the
// peer learns nothing about addresses.
func (c *Conn) Register(b []byte, access rdma.Access) (rdma.Region, error) {
	r := &region{conn: c, mem: b, size: len(b), access: access, scratch: access&rdma.Scratch != 0}
	if err := r.checkSize(); err != nil {
		return nil, err
	}
	c.regions.Lock()
	defer c.regions.Unlock()
	if c.regions.m == nil {
		return nil, c.closedError()
	}
	c.rnic.addRegion(r)
	c.regions.m[r] = struct{}{}
	return r, nil
}

// checkSize returns an error if the region is too large.
func (r *region) checkSize() error {
	if n := r.size; uint64(n) > math.MaxUint32 {
		return fmt.Errorf("iwarp: a region of %d bytes: the limit is %d", n, uint32(math.MaxUint32))
	}
	return nil
}

// STag returns the tag to advertise.
func (r *region) STag() rdma.STag { return r.stag }

// TO returns the first byte's tagged offset.
func (r *region) TO() uint64 { return 0 }

// pin returns the memory and prevents Deregister from returning until unpin. It
// returns false if the region is no longer valid. It never waits, since the
// reader calls it.
func (r *region) pin() (mem []byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return nil, false
	}
	r.pins++
	return r.mem, true
}

// repin adds a pin. The caller must hold one.
func (r *region) repin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pins++
}

func (r *region) unpin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pins--; r.pins == 0 && r.unpinned != nil {
		close(r.unpinned)
		r.unpinned = nil
	}
}

// lastUnpin returns a channel that is closed when the last pin is released, or nil if there is no
// pin.
func (r *region) lastUnpin() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pins > 0 && r.unpinned == nil {
		r.unpinned = make(chan struct{})
	}
	return r.unpinned
}

// markDead marks the region invalid, and reports whether it was valid.
func (r *region) markDead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := !r.dead
	r.dead = true
	for _, v := range r.views {
		v.markDead()
	}
	return was
}

// invalidate invalidates the STag without waiting.
func (r *region) invalidate() {
	if !r.markDead() {
		return
	}
	if r.domain != nil {
		r.domain.device.removeRegion(r)
		r.domain.removeRegion(r)
		return
	}
	c := r.conn
	c.rnic.removeRegion(r)
	c.regions.Lock()
	defer c.regions.Unlock()
	delete(c.regions.m, r)
}

// Deregister revokes the peers' access and waits until no segment is being
// placed in the region, and no response is being sent from it. If a peer delays
// these, its connection is aborted.
func (r *region) Deregister() {
	r.invalidate()
	r.waitUnused()
}

// Remap replaces the memory that the peers access with b, and waits for
// segments and responses in progress as Deregister does (rdma.Remapper).
func (r *region) Remap(b []byte) {
	if len(b) != r.size {
		panic(fmt.Sprintf("iwarp: %d bytes in place of a region of %d", len(b), r.size))
	}
	r.replaceMemory(b)
	r.waitUnused()
}

func (r *region) replaceMemory(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mem = b
	for _, v := range r.views {
		v.replaceMemory(b)
	}
}

// waitUnused waits until no earlier segment or response uses the region.
func (r *region) waitUnused() {
	if r.domain != nil {
		r.domain.waitUnpinned(r)
		return
	}
	r.waitViewUnpinned()
}

// waitViewUnpinned waits until the last pin is released.
func (r *region) waitViewUnpinned() {
	free := r.lastUnpin()
	if free == nil {
		return
	}
	r.conn.tx.uncork(r.conn) // a response may be held back, and the caller may be the reader
	revokeTimer := time.AfterFunc(revokeTimeout, func() {
		r.conn.Abort(fmt.Errorf("iwarp: STag %v was revoked while the peer withheld part of a segment for it", r.stag))
	})
	defer revokeTimer.Stop()
	<-free
}

// regionSet holds the valid regions of a connection; m is nil once the
// connection has ended.
type regionSet struct {
	sync.Mutex
	m map[*region]struct{}
}

// revokeAll invalidates every region of c and prevents new registrations.
func (c *Conn) revokeAll() {
	c.regions.Lock()
	all := c.regions.m
	c.regions.m = nil
	c.regions.Unlock()
	for r := range all {
		r.markDead()
		c.rnic.removeRegion(r)
	}
	if c.domain != nil {
		c.domain.removeConn(c)
	}
}
