package iwarp

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A region is memory that a peer may reach. Its STag is bound to one Stream, or
// to a Protection Domain; then each of the domain's connections has a view, so
// that it is known who uses the region.
type region struct {
	conn   *Conn             // the Stream, or nil
	domain *ProtectionDomain // or nil
	stag   rdma.STag
	size   int // octets of mem
	access rdma.Access

	// What the peer has not written counts for nothing, and top is the end of
	// what it has written. The reader knows these, and others when the region is
	// dead and has no pins.
	scratch bool
	top     uint64
	placed  placed

	mu    sync.Mutex
	mem   []byte            // use what pin returns
	views map[*Conn]*region // of a domain's
	dead  bool
	pins  int           // segments that are being placed, and responses not yet sent
	free  chan struct{} // closed with the last pin; nil: nobody waits
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
	rnic.add(r)
	c.regions.m[r] = struct{}{}
	return r, nil
}

// check tells why there cannot be such a region.
func (r *region) check() error {
	if n := r.size; uint64(n) > math.MaxUint32 {
		return fmt.Errorf("iwarp: a region of %d octets: the limit is %d", n, uint32(math.MaxUint32))
	}
	return nil
}

// STag returns the tag to advertise.
func (r *region) STag() rdma.STag { return r.stag }

// TO returns the tagged offset of the first octet.
func (r *region) TO() uint64 { return 0 }

// pin returns the memory and keeps Deregister from returning until unpin, or
// reports that the region is not valid any more. It waits for nobody, for the
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

// repin adds a pin to one that the caller has.
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

// pinned returns a channel that is closed with the last pin, or nil where
// there is none.
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

// invalidate ends the validity of the STag, and does not wait.
func (r *region) invalidate() {
	if !r.kill() {
		return
	}
	rnic.remove(r)
	if r.domain != nil {
		r.domain.remove(r)
		return
	}
	c := r.conn
	c.regions.Lock()
	defer c.regions.Unlock()
	delete(c.regions.m, r)
}

// Deregister ends the peers' access and waits until no segment is under way
// into the region, and no response out of it. A peer that holds one of them up
// loses its connection.
func (r *region) Deregister() {
	r.invalidate()
	r.waitUnused()
}

// Remap lets the peers reach b in place of the memory so far, and waits for
// what is under way as Deregister does (rdma.Remapper).
func (r *region) Remap(b []byte) {
	if len(b) != r.size {
		panic(fmt.Sprintf("iwarp: %d octets in place of a region of %d", len(b), r.size))
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

// waitUnused waits until no segment is under way that began before.
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
	r.conn.tx.uncork(r.conn) // a response may be held back, and this be the reader
	late := time.AfterFunc(revokeTimeout, func() {
		r.conn.Abort(fmt.Errorf("iwarp: STag %v was revoked while the peer held a segment of it back", r.stag))
	})
	defer late.Stop()
	<-free
}

// regionSet holds the valid regions of a connection; m is nil once it ended.
type regionSet struct {
	sync.Mutex
	m map[*region]struct{}
}

// revokeAll invalidates every region of c and lets no new one be.
func (c *Conn) revokeAll() {
	c.regions.Lock()
	all := c.regions.m
	c.regions.m = nil
	c.regions.Unlock()
	for r := range all {
		r.kill()
		rnic.remove(r)
	}
	if c.domain != nil {
		c.domain.leave(c)
	}
}
