package iwarp

import (
	"maps"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A ProtectionDomain is a set of connections that trust one another (RFC 5041,
// Section 8.2): only the peers on its connections can access memory registered
// with the domain. Connections of a Device with this domain join it. Memory
// registered with a connection belongs only to that connection, even in a
// domain.
type ProtectionDomain struct {
	device *Device

	mu      sync.Mutex
	regions map[*region]struct{} // the valid regions
}

// NewProtectionDomain returns a domain with no connections and no memory.
func (d *Device) NewProtectionDomain() *ProtectionDomain {
	return &ProtectionDomain{device: d, regions: make(map[*region]struct{})}
}

// Register gives the peers on the domain's connections access to b until
// Deregister. Neither closing a connection nor a peer's Send with Invalidate
// ends the registration (RFC 5040, Section 8.1.1, rule 7).
func (d *ProtectionDomain) Register(b []byte, access rdma.Access) (rdma.Region, error) {
	r := &region{domain: d, views: make(map[*Conn]*region), mem: b, size: len(b), access: access}
	if err := r.checkSize(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.device.addRegion(r)
	d.regions[r] = struct{}{}
	return r, nil
}

// removeRegion removes r, which is no longer valid.
func (d *ProtectionDomain) removeRegion(r *region) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.regions, r)
}

// waitUnpinned waits until no view of r is pinned. New pins are impossible.
func (d *ProtectionDomain) waitUnpinned(r *region) {
	r.mu.Lock()
	views := slices.Collect(maps.Values(r.views))
	r.mu.Unlock()
	var wg sync.WaitGroup
	for _, v := range views {
		wg.Go(v.waitViewUnpinned)
	}
	wg.Wait()
}

// removeConn removes the views of c, which has ended.
func (d *ProtectionDomain) removeConn(c *Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range d.regions {
		r.mu.Lock()
		delete(r.views, c)
		r.mu.Unlock()
	}
}

// viewFor returns the view of the region for c, or nil if c's peer must not use
// the region: the STag is bound to another Stream, or to a Protection Domain
// that does not include c.
func (r *region) viewFor(c *Conn) *region {
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
