package iwarp

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A region is memory that a peer may reach. Its STag is bound to one Stream, or
// to a Protection Domain. In a domain, each connection has a view of the
// region, so that its users are known.
type region struct {
	conn   *Conn             // the Stream, or nil
	domain *ProtectionDomain // or nil
	stag   rdma.STag
	size   int // length of mem in bytes
	access rdma.Access

	// In a scratch region the bytes that the peer has not written are
	// undefined; top is the end of the written bytes. These fields belong to
	// the reader. Others may read them when the region is dead and has no pins.
	scratch bool
	top     uint64
	placed  placed

	mu    sync.Mutex
	mem   []byte            // use the result of pin instead
	views map[*Conn]*region // if domain is set
	dead  bool
	pins  int           // segments being placed, and responses not yet sent
	free  chan struct{} // closed with the last pin; nil: there is no waiter
}

// Register lets the peer reach b. Tagged offsets start at 0, so that the peer
// learns nothing about addresses.
func (c *Conn) Register(b []byte, access rdma.Access) (rdma.Region, error) {
	r := &region{conn: c, mem: b, size: len(b), access: access, scratch: access&rdma.Scratch != 0}
	if err := r.check(); err != nil {
		return nil, err
	}
	c.regions.Lock()
	defer c.regions.Unlock()
	if c.regions.m == nil {
		return nil, c.closedError()
	}
	c.rnic.add(r)
	c.regions.m[r] = struct{}{}
	return r, nil
}

// check returns an error if such a region is not possible.
func (r *region) check() error {
	if n := r.size; uint64(n) > math.MaxUint32 {
		return fmt.Errorf("iwarp: a region of %d bytes: the limit is %d", n, uint32(math.MaxUint32))
	}
	return nil
}

// STag returns the tag to advertise.
func (r *region) STag() rdma.STag { return r.stag }

// TO returns the tagged offset of the first byte.
func (r *region) TO() uint64 { return 0 }

// pin returns the memory and keeps Deregister from returning until unpin, or
// reports that the region is no longer valid. It never waits, since the reader
// calls it.
func (r *region) pin() (mem []byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return nil, false
	}
	r.pins++
	return r.mem, true
}

// repin adds a pin to a pin of the caller.
func (r *region) repin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pins++
}

func (r *region) unpin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pins--; r.pins == 0 && r.free != nil {
		close(r.free)
		r.free = nil
	}
}

// pinned returns a channel that is closed with the last pin, or nil if there is
// no pin.
func (r *region) pinned() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pins > 0 && r.free == nil {
		r.free = make(chan struct{})
	}
	return r.free
}

// kill makes the region invalid, and reports whether it was valid.
func (r *region) kill() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := !r.dead
	r.dead = true
	for _, v := range r.views {
		v.kill()
	}
	return was
}

// invalidate makes the STag invalid without waiting.
func (r *region) invalidate() {
	if !r.kill() {
		return
	}
	if r.domain != nil {
		r.domain.device.remove(r)
		r.domain.remove(r)
		return
	}
	c := r.conn
	c.rnic.remove(r)
	c.regions.Lock()
	defer c.regions.Unlock()
	delete(c.regions.m, r)
}

// Deregister ends the peers' access and waits until no segment is being placed
// in the region, and no response is being sent from it. A peer that delays
// these loses its connection.
func (r *region) Deregister() {
	r.invalidate()
	r.waitUnused()
}

// Remap replaces the memory that the peers reach by b, and waits for segments
// and responses in progress as Deregister does (rdma.Remapper).
func (r *region) Remap(b []byte) {
	if len(b) != r.size {
		panic(fmt.Sprintf("iwarp: %d bytes in place of a region of %d", len(b), r.size))
	}
	r.exchange(b)
	r.waitUnused()
}

func (r *region) exchange(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mem = b
	for _, v := range r.views {
		v.exchange(b)
	}
}

// waitUnused waits until no earlier segment or response uses the region.
func (r *region) waitUnused() {
	if r.domain != nil {
		r.domain.waitUnpinned(r)
		return
	}
	r.settleView()
}

// settleView waits for the last pin.
func (r *region) settleView() {
	free := r.pinned()
	if free == nil {
		return
	}
	r.conn.tx.uncork(r.conn) // a response may be held back, and the caller may be the reader
	late := time.AfterFunc(revokeTimeout, func() {
		r.conn.Abort(fmt.Errorf("iwarp: STag %v was revoked while the peer withheld a part of a segment for it", r.stag))
	})
	defer late.Stop()
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
		r.kill()
		c.rnic.remove(r)
	}
	if c.domain != nil {
		c.domain.leave(c)
	}
}
