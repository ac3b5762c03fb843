package roce

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce/packet"
)

// A ProtectionDomain is a set of queue pairs and regions: a peer can access a
// region only through a queue pair in the same domain (section 10.2.3).
type ProtectionDomain struct{ dev *Device }

// NewProtectionDomain returns a new protection domain on the device.
func (d *Device) NewProtectionDomain() *ProtectionDomain { return &ProtectionDomain{dev: d} }

// A Region is memory that a protection domain's peers may write.
type Region struct {
	domain *ProtectionDomain
	key    rdma.STag
	access rdma.Access

	mu   sync.Mutex // held while bytes are placed
	mem  []byte
	dead bool
}

var _ rdma.Region = (*Region)(nil)

var errTooMany = errors.New("roce: the device has no space for more")

// Register gives the domain's peers access to b, as far as access and the queue
// pair's own access allow. Addresses start at 0, so that peers learn nothing
// about the process's memory.
func (pd *ProtectionDomain) Register(b []byte, access rdma.Access) (*Region, error) {
	if uint64(len(b)) > math.MaxUint32 {
		return nil, fmt.Errorf("roce: a region of %d bytes: the limit is %d", len(b), uint32(math.MaxUint32))
	}
	r := &Region{domain: pd, access: access, mem: b}
	d := pd.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.regions) >= maxRegions {
		return nil, fmt.Errorf("%w: %d regions", errTooMany, len(d.regions))
	}
	for r.key == 0 || d.regions[r.key] != nil {
		r.key = rdma.STag(rand.Uint32())
	}
	d.regions[r.key] = r
	return r, nil
}

// STag returns the R_Key to advertise.
func (r *Region) STag() rdma.STag { return r.key }

// TO returns the virtual address of the region's first byte.
func (r *Region) TO() uint64 { return 0 }

// Deregister revokes the peers' access. When it returns, no peer changes the
// memory any more.
func (r *Region) Deregister() {
	d := r.domain.dev
	d.mu.Lock()
	if d.regions[r.key] == r {
		delete(d.regions, r.key)
	}
	d.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mem, r.dead = nil, true
}

// checkWrite returns why a queue pair in a domain may not place an RDMA WRITE
// at the address in its RETH (C9-192.2.1), or notDropped.
func (r *Region) checkWrite(pd *ProtectionDomain, h packet.RETH) Drop {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := uint64(len(r.mem))
	switch {
	case r.dead:
		return dropRKey
	case r.domain != pd:
		return dropDomain
	case r.access&rdma.RemoteWrite == 0:
		return dropAccess
	case h.VA > size || uint64(h.Length) > size-h.VA:
		return dropBounds
	}
	return notDropped
}

// placeAt places one packet's bytes. It repeats the checks whose outcome may
// have changed since the message began.
func (r *Region) placeAt(at uint64, b []byte) (cause Drop, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return dropRKey, nil
	}
	return notDropped, placeBytes(r.mem[at:][:len(b)], b)
}
