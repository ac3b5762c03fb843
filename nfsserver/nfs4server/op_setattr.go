package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// serveSetAttr implements SETATTR (RFC 8881, Section 18.30).
func serveSetAttr(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.SetAttrArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	x.actForSetAttr(&a.StateID)
	if a.Attrs.Mask.Any(&delegatedTimes) && x.grantsTimes() {
		return x.setDelegatedTimes(ctx, &a)
	}
	set, done, status := x.convertAttrs(ctx, &a.Attrs, settableAttrs)
	if status == nfs4.OK {
		status = x.checkWritable(&x.current)
	}
	var l *posixACLs
	if status == nfs4.OK && a.Attrs.Mask.Has(nfs4.AttrACL) {
		var attr vfs.Attr
		if attr, status = x.getAttr(ctx, &x.current); status == nfs4.OK {
			l, status = x.convertACL(ctx, &a.Attrs, attr.Type)
		}
	}
	var opened *exportset.Open
	if status == nfs4.OK && set.Size != nil {
		opened, status = x.checkSizeStateID(ctx, &a.StateID)
	}
	if status == nfs4.OK && l != nil { // before anything has changed
		status = x.toStatus(x.current.use.BeforeSetACL(ctx, x.current.h))
	}
	if status == nfs4.OK && a.Attrs.Mask != nfs4.BitmapOf(nfs4.AttrACL) {
		var sized bool
		if sized, status = x.applyAttrs(ctx, opened, &a.Attrs, set); sized && status != nfs4.OK {
			res := nfs4.SetAttrRes{Status: status, AttrsSet: nfs4.BitmapOf(nfs4.AttrSize)}
			x.out = res.AppendTo(x.out)
		}
	}
	if status != nfs4.OK {
		return status
	}
	if l != nil { // last: a mode is set before a list (RFC 8881, Section 6.4.1.3)
		if status = x.setPOSIXACLs(ctx, l); status != nfs4.OK {
			done.Clear(nfs4.AttrACL)
		}
	}
	res := nfs4.SetAttrRes{Status: status, AttrsSet: done}
	x.out = res.AppendTo(x.out)
	return status
}

// actForSetAttr makes the COMPOUND act for the client that owns the stateid of an NFSv4.0
// SETATTR. That renews the client's lease even if the stateid has no other effect.
func (x *compound) actForSetAttr(id *nfs4.StateID) {
	if x.minor > nfs4.Minor0 || id.Special() || x.actForStateID(id) != nfs4.OK || x.current.node != nil {
		return
	}
	o, _ := x.server.state.Open(x.session, id)
	if key, err := x.objectKey(&x.current); err == nil && o != nil && o.Key == string(key) {
		x.attributeChanges(&x.current)
	}
}

// applyAttrs changes the current object's attributes. opened is nil, or the open through which
// to change the size. The size changes first: after an error, sized reports whether it was set
// (RFC 8881, Section 18.30.3).
func (x *compound) applyAttrs(ctx context.Context, opened *exportset.Open, a *nfs4.Attrs, set vfs.SetAttr) (sized bool, _ nfs4.Status) {
	o := &x.current
	u := o.use
	if err := x.acquirePermit(ctx, o); err != nil {
		return false, x.toStatus(err)
	}
	if a.Mask.Has(nfs4.AttrModeSetMasked) {
		old, status := x.getAttr(ctx, o)
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
		return sized, x.toStatus(err)
	}
	if err := u.BeforeSetAttr(ctx, o.h, &set); err != nil {
		return false, x.toStatus(err)
	}
	_, err := u.Export.FS.SetAttr(ctx, &u.Cred, o.h, set, nil)
	return false, x.toStatus(err)
}

// unsupportedStatus returns the status for attributes that the current object does not support. The
// file system of an automount may support them, and is mounted first.
func (x *compound) unsupportedStatus() nfs4.Status {
	if u := x.current.use; u != nil {
		if err := u.Export.TriggerAutomount(); err != nil {
			return x.toStatus(err)
		}
	}
	return nfs4.ErrAttrNotSupp
}

// convertAttrs converts attributes to be set. done are those that will be set.
func (x *compound) convertAttrs(ctx context.Context, a *nfs4.Attrs, allowed nfs4.Bitmap) (set vfs.SetAttr, done nfs4.Bitmap, _ nfs4.Status) {
	unknown := a.Mask.Without(x.supportedAttrs(&x.current))
	readOnly := a.Mask.Without(allowed)
	masked := nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrModeSetMasked)
	umasked := nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrModeUmask)
	switch {
	case !unknown.Empty():
		return set, done, x.unsupportedStatus()
	case !readOnly.Empty(), a.Mask.And(masked) == masked, a.Mask.And(umasked) == umasked:
		return set, done, nfs4.ErrInval
	}
	m := &a.Mask
	if m.Has(nfs4.AttrSize) {
		if a.Size > exportset.MaxFileSize {
			return set, done, nfs4.ErrFBig
		}
		set.Size = &a.Size
	}
	if hasBadMode(a) {
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
		if mode&umask != 0 && !x.inheritsACL(ctx) {
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
		if len(o.name) == 0 {
			return set, done, nfs4.ErrInval // the string itself is wrong, whichever users exist
		}
		n, status := x.ownerID(ctx, o.kind, o.name)
		if status != nfs4.OK {
			return set, done, status
		}
		*o.to = &n
	}
	var ok1, ok2 bool
	set.AtimeHow, set.Atime, ok1 = toSetTime(m.Has(nfs4.AttrTimeAccessSet), &a.TimeAccessSet)
	set.MtimeHow, set.Mtime, ok2 = toSetTime(m.Has(nfs4.AttrTimeModifySet), &a.TimeModifySet)
	if !ok1 || !ok2 {
		return set, done, nfs4.ErrInval
	}
	return set, a.Mask, nfs4.OK
}

// inheritsACL reports whether new objects in the current directory inherit a list, which
// replaces the umask (RFC 8275, Section 5).
func (x *compound) inheritsACL(ctx context.Context) bool {
	u := x.current.use
	if u == nil {
		return false
	}
	if u.Export.ACLs == nil || x.acquirePermit(ctx, &x.current) != nil {
		return false
	}
	_, def, _, err := u.Export.ACLs.GetACL(ctx, &u.Cred, x.current.h)
	return err == nil && len(def) > 0
}

// toSetTime converts a time stamp to be set. It fails if there is a second or more of
// nanoseconds: utimensat gives such values special meanings.
func toSetTime(set bool, s *nfs4.SetTime) (vfs.SetTime, vfs.Time, bool) {
	switch {
	case !set:
		return vfs.DontChange, vfs.Time{}, true
	case !s.Client:
		return vfs.SetToServer, vfs.Time{}, true
	}
	return vfs.SetToClient, vfs.Time(s.Time), s.Time.Nsec < 1e9
}
