package iwarp

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A region is memory that the peer of one connection may reach.
type region struct {
	conn   *Conn // the Stream that the STag is bound to
	stag   rdma.STag
	mem    []byte
	access rdma.Access

	dead atomic.Bool
	use  sync.RWMutex // held for reading while a segment is placed or sent
}

// Register lets the peer reach b. Tagged offsets start at 0, so that the peer
// learns nothing about addresses.
func (c *Conn) Register(b []byte, access rdma.Access) (rdma.Region, error) {
	if uint64(len(b)) > math.MaxUint32 {
		return nil, fmt.Errorf("iwarp: a region of %d octets: the limit is %d", len(b), uint32(math.MaxUint32))
	}
	r := &region{conn: c, mem: b, access: access}
	c.regions.Lock()
	defer c.regions.Unlock()
	if c.regions.m == nil {
		return nil, c.closedError()
	}
	rnic.add(r)
	c.regions.m[r] = struct{}{}
	return r, nil
}

// STag returns the tag to advertise.
func (r *region) STag() rdma.STag { return r.stag }

// TO returns the tagged offset of the first octet.
func (r *region) TO() uint64 { return 0 }

// pin keeps Deregister from returning until unpin, and reports whether the
// region is still valid.
func (r *region) pin() bool {
	r.use.RLock()
	if r.dead.Load() {
		r.use.RUnlock()
		return false
	}
	return true
}

func (r *region) unpin() { r.use.RUnlock() }

// invalidate ends the validity of the STag, and does not wait.
func (r *region) invalidate() {
	if r.dead.Swap(true) {
		return
	}
	rnic.remove(r)
	c := r.conn
	c.regions.Lock()
	defer c.regions.Unlock()
	delete(c.regions.m, r)
}

// Deregister ends the peer's access and waits until no segment is under way.
// A peer that stopped within one loses its connection.
func (r *region) Deregister() {
	r.invalidate()
	if r.use.TryLock() {
		r.use.Unlock()
		return
	}
	late := time.AfterFunc(revokeTimeout, func() {
		r.conn.Abort(fmt.Errorf("iwarp: STag %v was revoked while the peer held a segment of it back", r.stag))
	})
	r.use.Lock()
	late.Stop()
	r.use.Unlock()
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
		r.dead.Store(true)
		rnic.remove(r)
	}
}
