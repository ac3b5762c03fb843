package nfs4server

import (
	"strings"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// absent reports whether the file system of an object is on other servers alone
// (RFC 8881, Section 11.3).
func (o *object) absent() bool { return o.use != nil && !o.refused && o.use.Options.Refer.Set() }

// ofAbsent are the attributes of an absent file system (RFC 8881, Section 11.4.1).
var ofAbsent = nfs4.BitmapOf(nfs4.AttrFSID, nfs4.AttrFSLocations, nfs4.AttrMountedOnFileID, nfs4.AttrRdattrError)

// fillAbsent sets the requested attributes of an object of an absent file system, of
// which the server asks the host nothing.
func (x *compound) fillAbsent(o *object, want nfs4.Bitmap, out *nfs4.Attrs) {
	id := uint64(o.use.Export.ID)
	*out = nfs4.Attrs{Mask: want.And(ofAbsent), FSID: nfs4.FSID{Major: id, Minor: id}, MountedOnFileID: x.mountedOn(o.use.Export, id)}
	if want.Has(nfs4.AttrFSLocations) {
		out.FSLocations = x.locations(o)
	}
}

// locations returns the attribute fs_locations of an object: the path to the object's
// file system here, and its places elsewhere (RFC 8881, Section 11.16).
func (x *compound) locations(o *object) (l nfs4.FSLocations) {
	n := x.tree().byID[o.use.Export.ID]
	if n == nil {
		return l // an earlier set of exports
	}
	l.Root = pathname(n.path)
	places := o.use.Options.Refer
	if !places.Set() {
		places = o.use.Options.Replicas
	}
	for _, place := range places.List() {
		there := nfs4.FSLocation{Root: pathname(place.Path)}
		for _, host := range place.Hosts {
			there.Servers = append(there.Servers, []byte(host))
		}
		l.Locations = append(l.Locations, there)
	}
	return l
}

// pathname returns the names of an absolute and clean path.
func pathname(path string) (names nfs4.Pathname) {
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name != "" {
			names = append(names, []byte(name))
		}
	}
	return names
}
