package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/idmap"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// setAttr is SETATTR (RFC 8881, Section 18.30).
func setAttr(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.SetAttrArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if !a.StateID.Special() {
		x.byStateID(&a.StateID) // renews the lease also if the stateid does not matter
	}
	set, done, status := x.setAttrs(ctx, &a.Attrs, settable)
	if status == nfs4.OK {
		status = x.mayChange(&x.current)
	}
	var l *lists
	if status == nfs4.OK && a.Attrs.Mask.Has(nfs4.AttrACL) {
		var attr vfs.Attr
		if attr, status = x.attr(ctx, &x.current); status == nfs4.OK {
			l, status = x.hostLists(ctx, &a.Attrs, attr.Type)
		}
	}
	var opened *realm.Open
	if status == nfs4.OK && set.Size != nil {
		opened, status = x.maySize(ctx, &a.StateID)
	}
	if status == nfs4.OK && l != nil { // before anything is changed
		status = x.status(x.current.use.BeforeSetACL(ctx, x.current.h))
	}
	if status == nfs4.OK && a.Attrs.Mask != nfs4.BitmapOf(nfs4.AttrACL) {
		var sized bool
		if sized, status = x.set(ctx, opened, &a.Attrs, set); sized && status != nfs4.OK {
			res := nfs4.SetAttrRes{Status: status, AttrsSet: nfs4.BitmapOf(nfs4.AttrSize)}
			x.out = res.AppendTo(x.out)
		}
	}
	if status != nfs4.OK {
		return status
	}
	if l != nil { // last, as a mode is set before a list (RFC 8881, Section 6.4.1.3)
		if status = x.setLists(ctx, l); status != nfs4.OK {
			done.Clear(nfs4.AttrACL)
		}
	}
	res := nfs4.SetAttrRes{Status: status, AttrsSet: done}
	x.out = res.AppendTo(x.out)
	return status
}

// set changes the attributes of the current object. opened is nil, or an open by
// which the size is to change. The size comes first: with an error, sized tells
// whether it was set (RFC 8881, Section 18.30.3).
func (x *compound) set(ctx context.Context, opened *realm.Open, a *nfs4.Attrs, set vfs.SetAttr) (sized bool, _ nfs4.Status) {
	o := &x.current
	u := o.use
	if err := x.work(ctx, o); err != nil {
		return false, x.status(err)
	}
	if a.Mask.Has(nfs4.AttrModeSetMasked) {
		old, status := x.attr(ctx, o)
		if status != nfs4.OK {
			return false, status
		}
		mode := old.Mode&^a.ModeSetMasked.Mask | a.ModeSetMasked.Value&a.ModeSetMasked.Mask
		set.Mode = &mode
	}
	f := u.FileOf(opened, vfs.OpenWrite)
	if f != nil {
		defer f.Done()
	}
	if set.Size != nil {
		sized, err := x.setSize(ctx, f, set)
		return sized, x.status(err)
	}
	if err := u.BeforeSetAttr(ctx, o.h, &set); err != nil {
		return false, x.status(err)
	}
	_, err := u.Export.FS.SetAttr(ctx, &u.Cred, o.h, set, nil)
	return false, x.status(err)
}

// setAttrs converts attributes to be set. done are those that will be set.
func (x *compound) setAttrs(ctx context.Context, a *nfs4.Attrs, allowed nfs4.Bitmap) (set vfs.SetAttr, done nfs4.Bitmap, _ nfs4.Status) {
	unknown := a.Mask.Without(x.supported(&x.current))
	readOnly := a.Mask.Without(allowed)
	masked := nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrModeSetMasked)
	umasked := nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrModeUmask)
	switch {
	case !unknown.Empty():
		return set, done, nfs4.ErrAttrNotSupp
	case !readOnly.Empty(), a.Mask.And(masked) == masked, a.Mask.And(umasked) == umasked:
		return set, done, nfs4.ErrInval
	}
	m := &a.Mask
	if m.Has(nfs4.AttrSize) {
		if a.Size > realm.MaxFileSize {
			return set, done, nfs4.ErrFBig
		}
		set.Size = &a.Size
	}
	if badMode(a) {
		return set, done, nfs4.ErrInval
	}
	if m.Has(nfs4.AttrMode) {
		set.Mode = &a.Mode
	}
	if m.Has(nfs4.AttrModeUmask) {
		mode, umask := a.ModeUmask.Mode, a.ModeUmask.Umask
		if mode&^modeBits != 0 || umask&^0o777 != 0 {
			return set, done, nfs4.ErrInval
		}
		if mode&umask != 0 && !x.inherits(ctx) {
			mode &^= umask
		}
		set.Mode = &mode
	}
	if m.Has(nfs4.AttrModeSetMasked) && (a.ModeSetMasked.Mask|a.ModeSetMasked.Value)&^modeBits != 0 {
		return set, done, nfs4.ErrInval
	}
	for _, o := range [...]struct {
		id   nfs4.AttrID
		kind idmap.Kind
		name []byte
		to   **uint32
	}{{nfs4.AttrOwner, idmap.User, a.Owner, &set.UID}, {nfs4.AttrOwnerGroup, idmap.Group, a.OwnerGroup, &set.GID}} {
		if !m.Has(o.id) {
			continue
		}
		n, status := x.ownerID(ctx, o.kind, o.name)
		if status != nfs4.OK {
			return set, done, status
		}
		*o.to = &n
	}
	var ok1, ok2 bool
	set.AtimeHow, set.Atime, ok1 = hostTime(m.Has(nfs4.AttrTimeAccessSet), &a.TimeAccessSet)
	set.MtimeHow, set.Mtime, ok2 = hostTime(m.Has(nfs4.AttrTimeModifySet), &a.TimeModifySet)
	if !ok1 || !ok2 {
		return set, done, nfs4.ErrInval
	}
	return set, a.Mask, nfs4.OK
}

// inherits reports whether new objects in the current directory get a list from
// it, in whose place no umask counts (RFC 8275, Section 5).
func (x *compound) inherits(ctx context.Context) bool {
	u := x.current.use
	if u == nil {
		return false
	}
	if u.Export.ACLs == nil || x.work(ctx, &x.current) != nil {
		return false
	}
	_, def, _, err := u.Export.ACLs.GetACL(ctx, &u.Cred, x.current.h)
	return err == nil && len(def) > 0
}

// hostTime returns how a time stamp is to be set. It fails for more than a
// second of nanoseconds, which utimensat gives special meanings.
func hostTime(set bool, s *nfs4.SetTime) (vfs.SetTime, vfs.Time, bool) {
	switch {
	case !set:
		return vfs.DontChange, vfs.Time{}, true
	case !s.Client:
		return vfs.SetToServer, vfs.Time{}, true
	}
	return vfs.SetToClient, vfs.Time(s.Time), s.Time.Nsec < 1e9
}
