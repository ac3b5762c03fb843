package nfs4server

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/idmap"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4acl"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// Access control lists (RFC 8881, Section 6). The host stores and enforces POSIX
// lists; package nfs4acl maps them. As on Linux's server, a file system without
// lists does not have the attribute acl, and its aclsupport is 0: Linux's client
// then tells its users so, and they use the mode.

// lists are the POSIX lists that an object is to get. The default list is nil for
// what is no directory, and without entries for a directory that is to have none.
type lists struct {
	access vfs.ACL
	def    *vfs.ACL
}

// fillACL sets the attribute acl. An object without a list has the list that is
// equivalent to its mode.
func (x *compound) fillACL(ctx context.Context, o *object, isDir bool, out *nfs4.Attrs) nfs4.Status {
	u := o.use
	access, def, attr, err := u.Export.ACLs.GetACL(ctx, &u.Cred, o.h)
	if err == nil && access == nil {
		if !attr.OK {
			attr.Attr, err = u.Export.FS.GetAttr(ctx, &u.Cred, o.h)
		}
		access = vfs.ModeACL(attr.Mode)
	}
	if err != nil {
		return x.status(err)
	}
	aces := nfs4acl.FromPOSIX(access, def, isDir)
	out.ACL = make(nfs4.ACL, len(aces))
	for i, e := range aces {
		who, status := x.whoString(ctx, o, &e)
		if status != nfs4.OK {
			return status
		}
		out.ACL[i] = nfs4.ACE{Type: e.Type, Flag: e.Flag, Mask: e.Mask, Who: who}
	}
	return nfs4.OK
}

// whoString returns the Who of an ACE of the object o.
func (x *compound) whoString(ctx context.Context, o *object, e *nfs4acl.ACE) ([]byte, nfs4.Status) {
	switch e.Kind {
	case nfs4acl.Owner:
		return []byte(nfs4.WhoOwner), nfs4.OK
	case nfs4acl.OwnerGroup:
		return []byte(nfs4.WhoGroup), nfs4.OK
	case nfs4acl.Everyone:
		return []byte(nfs4.WhoEveryone), nfs4.OK
	case nfs4acl.Group:
		return x.ownerString(ctx, o, idmap.Group, e.ID, nil)
	}
	return x.ownerString(ctx, o, idmap.User, e.ID, nil)
}

// translate translates the Who of an ACE from a client.
func (x *compound) translate(ctx context.Context, a *nfs4.ACE) (e nfs4acl.ACE, status nfs4.Status) {
	e = nfs4acl.ACE{Type: a.Type, Flag: a.Flag, Mask: a.Mask}
	switch string(a.Who) {
	case nfs4.WhoOwner:
		e.Kind = nfs4acl.Owner
	case nfs4.WhoGroup:
		e.Kind = nfs4acl.OwnerGroup
	case nfs4.WhoEveryone:
		e.Kind = nfs4acl.Everyone
	default:
		kind := idmap.User
		if e.Kind = nfs4acl.User; a.Flag&nfs4.ACEIdentifierGroup != 0 {
			e.Kind, kind = nfs4acl.Group, idmap.Group
		}
		e.ID, status = x.ownerID(ctx, kind, a.Who)
	}
	return e, status
}

// hostLists returns the lists that an object is to get, or nil if a has no acl.
func (x *compound) hostLists(ctx context.Context, a *nfs4.Attrs, t vfs.Type) (*lists, nfs4.Status) {
	switch {
	case !a.Mask.Has(nfs4.AttrACL):
		return nil, nfs4.OK
	case t == vfs.TypeLnk: // hosts have none of symbolic links
		return nil, nfs4.ErrAttrNotSupp
	}
	aces := make([]nfs4acl.ACE, len(a.ACL))
	for i := range a.ACL {
		var status nfs4.Status
		if aces[i], status = x.translate(ctx, &a.ACL[i]); status != nfs4.OK {
			return nil, status
		}
	}
	access, def, err := nfs4acl.ToPOSIX(aces, t == vfs.TypeDir)
	if err != nil {
		return nil, nfs4.ErrAttrNotSupp
	}
	l := &lists{access: access}
	if t == vfs.TypeDir {
		l.def = &def
	}
	return l, nfs4.OK
}

// setLists sets the lists of the current object, whose change is announced.
func (x *compound) setLists(ctx context.Context, l *lists) nfs4.Status {
	if err := x.work(ctx, &x.current); err != nil {
		return x.status(err)
	}
	u := x.current.use
	_, err := u.Export.ACLs.SetACL(ctx, &u.Cred, x.current.h, &l.access, l.def)
	if errors.Is(err, syscall.EOPNOTSUPP) { // for this object
		return nfs4.ErrAttrNotSupp
	}
	return x.status(err)
}

// setNew is setAttrs for a new object in the current directory.
func (x *compound) setNew(ctx context.Context, a *nfs4.Attrs, allowed nfs4.Bitmap, t vfs.Type) (set vfs.SetAttr, l *lists, done nfs4.Bitmap, status nfs4.Status) {
	if set, done, status = x.setAttrs(ctx, a, allowed); status == nfs4.OK {
		l, status = x.hostLists(ctx, a, t)
	}
	switch {
	case status != nfs4.OK:
	case l != nil: // until the list is set, the object is its maker's alone
		mode := modeFor(t) &^ 0o077
		if set.Mode != nil {
			mode = *set.Mode &^ 0o077
		}
		set.Mode = &mode
	case set.Mode == nil && !a.Mask.Empty() && x.inherits(ctx):
		mode := modeFor(t) // the default list alone decides (RFC 8881, Section 6.4.3)
		set.Mode = &mode
	}
	return set, l, done, status
}

// modeFor returns the mode of a new object that takes nothing from a default list.
func modeFor(t vfs.Type) uint32 {
	if t == vfs.TypeDir {
		return 0o777
	}
	return 0o666
}

// giveLists sets the lists of the current object, which the caller has just
// made. No name may be locked, since other clients may be waited for. It returns
// the attributes in done that are set.
func (x *compound) giveLists(ctx context.Context, l *lists, done nfs4.Bitmap) nfs4.Bitmap {
	if l == nil {
		return done
	}
	status := x.status(x.current.use.BeforeSetACL(ctx, x.current.h))
	if status == nfs4.OK {
		status = x.setLists(ctx, l)
	}
	if status != nfs4.OK {
		done = done.Without(nfs4.BitmapOf(nfs4.AttrACL, nfs4.AttrMode, nfs4.AttrModeUmask))
	}
	return done
}

// canonicalACL writes a list for a comparison as fillACL would: names of one user
// are then the same, and flags that mean nothing are gone.
func (x *compound) canonicalACL(ctx context.Context, a nfs4.ACL) (status nfs4.Status) {
	for i := range a {
		e := &a[i]
		e.Flag &^= nfs4.ACEInherited
		switch string(e.Who) {
		case nfs4.WhoOwner, nfs4.WhoGroup, nfs4.WhoEveryone:
			e.Flag &^= nfs4.ACEIdentifierGroup
			continue
		}
		kind := idmap.User
		if e.Flag&nfs4.ACEIdentifierGroup != 0 {
			kind = idmap.Group
		}
		if e.Who, status = x.canonicalOwner(ctx, kind, e.Who); status != nfs4.OK {
			return status
		}
	}
	return nfs4.OK
}
