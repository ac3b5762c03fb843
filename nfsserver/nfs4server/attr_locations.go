package nfs4server

import (
	"strings"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// isAbsent reports whether an object's file system exists only on other servers (RFC 8881,
// Section 11.3).
func (o *object) isAbsent() bool { return o.use != nil && !o.wrongSec && o.use.Options.Refer.Set() }

// absentAttrs are an absent file system's attributes (RFC 8881, Section 11.4.1).
var absentAttrs = nfs4.BitmapOf(nfs4.AttrFSID, nfs4.AttrFSLocations, nfs4.AttrMountedOnFileID, nfs4.AttrRdattrError)

// fillAbsentAttrs sets the requested attributes of an object in an absent file system, without
// accessing the host.
func (x *compound) fillAbsentAttrs(o *object, want nfs4.Bitmap, out *nfs4.Attrs) {
	id := uint64(o.use.Export.ID)
	*out = nfs4.Attrs{Mask: want.And(absentAttrs), FSID: nfs4.FSID{Major: id, Minor: id}, MountedOnFileID: x.mountedOnFileID(o.use.Export, id)}
	if want.Has(nfs4.AttrFSLocations) {
		out.FSLocations = x.fsLocations(o)
	}
}

// fsLocations returns an object's attribute fs_locations: the path to its file system here, and
// its locations elsewhere (RFC 8881, Section 11.16).
func (x *compound) fsLocations(o *object) (l nfs4.FSLocations) {
	n := x.currentTree().byID[o.use.Export.ID]
	if n == nil {
		return l // from an earlier set of exports
	}
	l.Root = splitPath(n.path)
	places := o.use.Options.Refer
	if !places.Set() {
		places = o.use.Options.Replicas
	}
	for _, place := range places.List() {
		there := nfs4.FSLocation{Root: splitPath(place.Path)}
		for _, host := range place.Hosts {
			there.Servers = append(there.Servers, []byte(host))
		}
		l.Locations = append(l.Locations, there)
	}
	return l
}

// splitPath returns the names in an absolute, clean path.
func splitPath(path string) (names nfs4.Pathname) {
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name != "" {
			names = append(names, []byte(name))
		}
	}
	return names
}
