package exportset

import (
	"math"
	"net/netip"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// An Exported is an Export in a Snapshot with its defaults set, and with the optional
// interfaces of its file system.
type Exported struct {
	*source
	config  Export
	index   int // position in the snapshot
	Path    string
	ID      uint32
	Clients []exports.Client // not empty
	nested  pathStep         // leads to the exports below
	upper   *Exported        // the nearest export above, or nil

	// Usage counts the calls that use the export. It outlives SetExports.
	Usage *rpcstats.Usage
}

// SharesFS reports whether two exports, which may be of different snapshots, are the same use of a
// file system.
func (e *Exported) SharesFS(other *Exported) bool { return e.source == other.source }

// Running returns the number of calls that use the export at present.
func (e *Exported) Running() int { return int(max(e.calls.Load(), 0)) }

func newExport(c *Export, index int) *Exported {
	e := &Exported{source: newSource(c.FS), config: *c, index: index, Path: c.Path, ID: c.exportID(), Usage: new(rpcstats.Usage)}
	e.Clients = append(e.Clients, c.Clients...)
	if len(e.Clients) == 0 {
		e.Clients = exports.Everyone(exports.Options{Insecure: true})
	}
	e.config.ID, e.config.Clients = e.ID, e.Clients
	return e
}

// ClientsUnknown reports whether it is unknown which clients may use e. Clients means nothing then.
func (e *Exported) ClientsUnknown() bool {
	u, _ := e.FS.(Unavailable)
	return u.ClientsUnknown
}

// IsSubmount reports whether e is a file system mounted below another export's directory.
func (e *Exported) IsSubmount() bool { return e.config.Submount }

// HasID reports whether id identifies e, or its root directory, in file handles.
func (e *Exported) HasID(id uint32) bool {
	return id == e.ID || id != 0 && id == e.config.RootID
}

// rootHandle is the rest of a root directory's file handle with Export.RootID.
var rootHandle vfs.Handle

// appendHandle appends the file handle of an object in e to b, which must be empty.
func (e *Exported) appendHandle(s *sealer, m *macBuffer, b []byte, h *vfs.Handle) []byte {
	if id := e.config.RootID; id != 0 && *h == e.FS.Root() {
		return s.appendHandle(m, b, id, &rootHandle)
	}
	return s.appendHandle(m, b, e.ID, h)
}

// resolveHandle returns the object in e for a file handle with an ID of e and the rest h.
func (e *Exported) resolveHandle(id uint32, h vfs.Handle) (vfs.Handle, error) {
	switch {
	case id == e.ID:
		return h, nil
	case h != rootHandle:
		return h, Stale
	default:
		return e.FS.Root(), nil
	}
}

// IsAutomount reports whether e is an automount whose file system is not mounted.
func (e *Exported) IsAutomount() bool { return e.isAutomount }

// AwaitsAutomount reports whether IsAutomount, and the attributes of the mount point are unknown.
func (e *Exported) AwaitsAutomount() bool {
	u, _ := e.FS.(Unavailable)
	return e.isAutomount && !u.Automount.Attr.OK
}

// TriggerAutomount starts to mount an automount's file system, and returns Later. If e is none, or the
// file system is mounted, it returns nil.
func (e *Exported) TriggerAutomount() error {
	if u, _ := e.FS.(Unavailable); e.isAutomount {
		return u.later()
	}
	return nil
}

// MountedOn returns the fileid of the directory that e's root covers, or 0 if it is unknown.
func (e *Exported) MountedOn() uint64 { return e.config.MountedOn }

// addrOf returns a peer's address, or the zero Addr for a caller within this process.
func addrOf(p *oncrpc.Peer) netip.Addr {
	if p == nil {
		return netip.Addr{}
	}
	return p.Addr.Addr().Unmap()
}

// squashCred returns the identity for a call with credential from. It appends the groups to
// groups.
func squashCred(o *exports.Options, from *rpcmsg.Cred, groups []uint32) vfs.Cred {
	uid, gid := o.AnonUID.Number(), o.AnonGID.Number()
	if o.AllSquash || from.Flavor == rpcmsg.AuthNone || from.Anonymous {
		return vfs.Cred{UID: uid, GID: gid}
	}
	return vfs.Cred{
		UID: mapID(o, from.UID, uid), GID: mapID(o, from.GID, gid),
		Groups: mapGroups(o, from.GIDs, groups),
	}
}

// mapGroups appends a caller's mapped groups to groups.
func mapGroups(o *exports.Options, from, groups []uint32) []uint32 {
	groups = slices.Grow(groups, len(from))
	for _, g := range from {
		groups = append(groups, mapID(o, g, o.AnonGID.Number()))
	}
	return groups
}

// mapID maps a caller's user or group. The largest id is always mapped: setfsuid and similar
// calls take it to mean "unchanged", which would mean the daemon itself.
func mapID(o *exports.Options, id, anon uint32) uint32 {
	if id == 0 && !o.NoRootSquash || id == math.MaxUint32 {
		return anon
	}
	return id
}
