package iwarp

import (
	"maps"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A ProtectionDomain is a set of connections that trust one another (RFC 5041,
// Section 8.2): the peers of all its connections can reach memory registered
// with the domain, and no other peer can. A connection joins if it is made
// by the domain's Device.
// Memory registered with a connection belongs to that connection alone, even in
// a domain.
type ProtectionDomain struct {
	device *Device

	mu      sync.Mutex
	regions map[*region]struct{} // the valid ones
}

// NewProtectionDomain returns a domain with no connections and no memory.
func (d *Device) NewProtectionDomain() *ProtectionDomain {
	return &ProtectionDomain{device: d, regions: make(map[*region]struct{})}
}

// Device returns the device for connections of the domain: their peers reach
// the memory that is registered with the domain. It has the configuration, the
// STags and the counts of the device that made the domain.
func (d *ProtectionDomain) Device() *Device {
	joins := *d.device
	joins.domain = d
	return &joins
}

// Register lets the peers of the domain's connections reach b until Deregister.
// Neither the end of a connection ends the registration, nor a peer's Send with
// Invalidate (RFC 5040, Section 8.1.1, rule 7).
func (d *ProtectionDomain) Register(b []byte, access rdma.Access) (rdma.Region, error) {
	r := &region{domain: d, views: make(map[*Conn]*region), mem: b, size: len(b), access: access}
	if err := r.check(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.device.add(r)
	d.regions[r] = struct{}{}
	return r, nil
}

// remove forgets r, which is no longer valid.
func (d *ProtectionDomain) remove(r *region) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.regions, r)
}

// waitUnpinned waits until the last pin of every view of r is gone. No new pins
// are possible.
func (d *ProtectionDomain) waitUnpinned(r *region) {
	r.mu.Lock()
	views := slices.Collect(maps.Values(r.views))
	r.mu.Unlock()
	var wg sync.WaitGroup
	for _, v := range views {
		wg.Go(v.settleView)
	}
	wg.Wait()
}

// leave forgets c, which has ended.
func (d *ProtectionDomain) leave(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range d.regions {
		r.mu.Lock()
		delete(r.views, c)
		r.mu.Unlock()
	}
}

// on returns the region as the peer of c may use it, or nil if the peer must
// not use the region: the STag is bound to another Stream, or to a Protection
// Domain that does not include c.
func (r *region) on(c *Conn) *region {
	switch {
	case r.conn == c:
		return r
	case r.domain == nil || r.domain != c.domain:
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.views[c]
	if v == nil {
		v = &region{conn: c, stag: r.stag, mem: r.mem, size: r.size, access: r.access, dead: r.dead}
		r.views[c] = v
	}
	return v
}
