//go:build linux

package posix

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// heldFDs counts the descriptors that all Files and fileLocks in the process need, because
// RLIMIT_NOFILE bounds them together.
var heldFDs atomic.Int64

// shares are what clients, by their addresses, may hold: a client gets at most half of what others
// leave, so that it cannot keep others from opening and locking files.
type shares struct {
	opens *fairshare.Places // for Files
	locks *fairshare.Places // for fileLocks with an own descriptor
}

// newShares shares n descriptors: half for Files, a quarter for locked files that need
// their own.
func newShares(n int64) *shares {
	return &shares{fairshare.NewPlaces(int(n / 2 / maxOpenCost)), fairshare.NewPlaces(int(n / 4))}
}

// allShares is for all FS whose Options do not set MaxFiles.
var allShares = sync.OnceValue(func() *shares { return newShares(maxHeldFDs()) })

// maxHeldFDs bounds the descriptors for all leases, Files and fileLocks together.
func maxHeldFDs() int64 { return maxFiles() - maxFiles()/4 }

// A sharePlace is a client's share, or zero for calls without a client.
type sharePlace struct {
	of     *fairshare.Places
	client fairshare.Name
}

// takeShare acquires a place for a client, if the address is valid. It returns false if the client
// may not have another.
func takeShare(client netip.Addr, of *fairshare.Places) (p sharePlace, ok bool) {
	if !client.IsValid() {
		return p, true
	}
	p = sharePlace{of, fairshare.PartyOfIP(client)}
	return p, of.Take(p.client)
}

func (p sharePlace) releasePlace() {
	if p.of != nil {
		p.of.Give(p.client)
	}
}

// reserveFDs reserves n descriptors for clients and adds them to kind, which may reach most.
func (c *cache) reserveFDs(kind *atomic.Int64, n, most int64) bool {
	if kind.Add(n) > most {
		kind.Add(-n)
		return false
	}
	if heldFDs.Add(n)+leasedFDs.Load() > max(c.budget, minMaxFiles) {
		c.releaseFDs(kind, n)
		return false
	}
	return true
}

// releaseFDs undoes reserveFDs.
func (c *cache) releaseFDs(kind *atomic.Int64, n int64) {
	kind.Add(-n)
	heldFDs.Add(-n)
}
