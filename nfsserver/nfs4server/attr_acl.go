package nfs4server

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4acl"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// Access control lists (RFC 8881, Section 6). The host stores and enforces POSIX lists; package
// nfs4acl maps them. As on Linux's server, a file system without lists does not have the
// attribute acl, and its aclsupport is 0: Linux's client then reports that to its users, who
// use the mode.

// posixACLs are the POSIX lists to set on an object. The default list is nil if the object is
// not a directory, and has no entries to remove a directory's default list.
type posixACLs struct {
	access vfs.ACL
	def    *vfs.ACL
}

// fillACL sets the attribute acl. If an object has no list, acl is equivalent to its mode.
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
		return x.toStatus(err)
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

// whoString returns the Who of an ACE for the object o.
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

// translateACE translates an ACE from a client, and looks up its Who.
func (x *compound) translateACE(ctx context.Context, a *nfs4.ACE) (e nfs4acl.ACE, status nfs4.Status) {
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

// convertACL returns the lists to set on an object, or nil if a has no acl.
func (x *compound) convertACL(ctx context.Context, a *nfs4.Attrs, t vfs.Type) (*posixACLs, nfs4.Status) {
	switch {
	case !a.Mask.Has(nfs4.AttrACL):
		return nil, nfs4.OK
	case t == vfs.TypeLnk: // hosts store none for symbolic links
		return nil, nfs4.ErrAttrNotSupp
	}
	aces := make([]nfs4acl.ACE, len(a.ACL))
	for i := range a.ACL {
		var status nfs4.Status
		if aces[i], status = x.translateACE(ctx, &a.ACL[i]); status != nfs4.OK {
			return nil, status
		}
	}
	access, def, err := nfs4acl.ToPOSIX(aces, t == vfs.TypeDir)
	if err != nil {
		return nil, nfs4.ErrAttrNotSupp
	}
	l := &posixACLs{access: access}
	if t == vfs.TypeDir {
		l.def = &def
	}
	return l, nfs4.OK
}

// setPOSIXACLs sets the current object's lists. The change must have been announced.
func (x *compound) setPOSIXACLs(ctx context.Context, l *posixACLs) nfs4.Status {
	if err := x.acquirePermit(ctx, &x.current); err != nil {
		return x.toStatus(err)
	}
	u := x.current.use
	_, err := u.Export.ACLs.SetACL(ctx, &u.Cred, x.current.h, &l.access, l.def)
	if errors.Is(err, syscall.EOPNOTSUPP) { // this object takes no list
		return nfs4.ErrAttrNotSupp
	}
	return x.toStatus(err)
}

// newObjectAttrs converts the attributes for a new object in the current directory.
func (x *compound) newObjectAttrs(ctx context.Context, a *nfs4.Attrs, allowed nfs4.Bitmap, t vfs.Type) (set vfs.SetAttr, l *posixACLs, done nfs4.Bitmap, status nfs4.Status) {
	if set, done, status = x.convertAttrs(ctx, a, allowed); status == nfs4.OK {
		l, status = x.convertACL(ctx, a, t)
	}
	switch {
	case status != nfs4.OK:
	case l != nil: // until the list is set, only the creator may use the object
		mode := defaultMode(t) &^ 0o077
		if set.Mode != nil {
			mode = *set.Mode &^ 0o077
		}
		set.Mode = &mode
	case set.Mode == nil && !a.Mask.Empty() && x.inheritsACL(ctx):
		mode := defaultMode(t) // only the default list decides (RFC 8881, Section 6.4.3)
		set.Mode = &mode
	}
	return set, l, done, status
}

// defaultMode returns the mode for a new object whose directory has no default list.
func defaultMode(t vfs.Type) uint32 {
	if t == vfs.TypeDir {
		return 0o777
	}
	return 0o666
}

// setInitialACLs sets the lists of the current object, which the caller has just created. No
// name may be locked, because the call may wait for other clients. It returns the attributes in
// done that are set.
func (x *compound) setInitialACLs(ctx context.Context, l *posixACLs, done nfs4.Bitmap) nfs4.Bitmap {
	if l == nil {
		return done
	}
	status := x.toStatus(x.current.use.BeforeSetACL(ctx, x.current.h))
	if status == nfs4.OK {
		status = x.setPOSIXACLs(ctx, l)
	}
	if status != nfs4.OK {
		done = done.Without(nfs4.BitmapOf(nfs4.AttrACL, nfs4.AttrMode, nfs4.AttrModeUmask))
	}
	return done
}

// canonicalizeACL rewrites a list in the form that fillACL produces, for a comparison: it
// unifies the names of each user and clears flags without a meaning.
func (x *compound) canonicalizeACL(ctx context.Context, a nfs4.ACL) (status nfs4.Status) {
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
