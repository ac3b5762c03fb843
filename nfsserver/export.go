package nfsserver

import (
	"math"
	"net/netip"
	"slices"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// An export is an Export with its defaults filled in.
type export struct {
	path             string
	fs               vfs.FS
	mapper           vfs.Mapper // fs, or nil
	id               uint32
	readOnly         bool
	noRootSquash     bool
	anonUID, anonGID uint32
	clients          []netip.Prefix
}

func newExport(c *Export) *export {
	e := &export{
		path:         c.Path,
		fs:           c.FS,
		id:           c.id(),
		readOnly:     c.ReadOnly,
		noRootSquash: c.NoRootSquash,
		anonUID:      c.AnonUID,
		anonGID:      c.AnonGID,
		clients:      slices.Clone(c.Clients),
	}
	e.mapper, _ = c.FS.(vfs.Mapper)
	if e.anonUID == 0 {
		e.anonUID = nobody
	}
	if e.anonGID == 0 {
		e.anonGID = nobody
	}
	return e
}

// allows tells whether the client at the other end of a connection may use
// the export.
func (e *export) allows(p *oncrpc.Peer) bool {
	if len(e.clients) == 0 {
		return true
	}
	if p == nil {
		return false
	}
	// An IPv4 client of a socket for both families has a mapped address,
	// and no prefix contains an address with a zone.
	addr := p.Addr.Addr().Unmap().WithZone("")
	for _, c := range e.clients {
		if c.Contains(addr) {
			return true
		}
	}
	return false
}

// squash sets to to whom a call with credential from is done for. The groups
// are stored in groups.
func (e *export) squash(from *oncrpc.Cred, to *vfs.Cred, groups *[maxGroups]uint32) {
	if from.Flavor != oncrpc.AuthSys {
		*to = vfs.Cred{UID: e.anonUID, GID: e.anonGID}
		return
	}
	n := copy(groups[:], from.GIDs)
	for i := range n {
		groups[i] = e.mapID(groups[i], e.anonGID)
	}
	*to = vfs.Cred{UID: e.mapID(from.UID, e.anonUID), GID: e.mapID(from.GID, e.anonGID), Groups: groups[:n]}
}

// mapID returns what stands for a caller's user or group. The largest id is
// none: setfsuid and its kin take it for "as before", which would be the
// daemon itself.
func (e *export) mapID(id, anon uint32) uint32 {
	if id == 0 && !e.noRootSquash || id == math.MaxUint32 {
		return anon
	}
	return id
}
