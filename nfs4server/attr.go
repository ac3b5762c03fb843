package nfs4server

import (
	"bytes"
	"context"

	"github.com/nfsrdma/nfsrdma/idmap"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// Sets of attributes, by their needs and uses.
var (
	// onlySet are the attributes that a client can set but not get.
	onlySet = nfs4.BitmapOf(nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet, nfs4.AttrModeSetMasked, nfs4.AttrModeUmask)

	// settable are the attributes that SETATTR can set, and with ModeUmask
	// those of OPEN and CREATE.
	settable = nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrACL, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup,
		nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet, nfs4.AttrModeSetMasked)

	// exclusive are those of an exclusive create, which keeps its verifier in
	// the times.
	exclusive = nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrACL, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrModeUmask)

	// ofFS need the file system's space, ofPath its limits of names.
	ofFS = nfs4.BitmapOf(nfs4.AttrFilesAvail, nfs4.AttrFilesFree, nfs4.AttrFilesTotal,
		nfs4.AttrSpaceAvail, nfs4.AttrSpaceFree, nfs4.AttrSpaceTotal)
	ofPath = nfs4.BitmapOf(nfs4.AttrCaseInsensitive, nfs4.AttrCasePreserving, nfs4.AttrChownRestricted,
		nfs4.AttrMaxLink, nfs4.AttrMaxName, nfs4.AttrNoTrunc)

	// ofData are those that a client with a delegation for writing changes by itself.
	ofData = nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrTimeMetadata, nfs4.AttrTimeModify)

	// supported1 are the attributes of minor version 1; later has those of
	// minor version 2.
	later      = nfs4.BitmapOf(nfs4.AttrChangeAttrType, nfs4.AttrModeUmask, nfs4.AttrXattrSupport)
	unsupplied = nfs4.BitmapOf(nfs4.AttrACL, nfs4.AttrCloneBlkSize) // but see supported
	supported2 = nfs4.Known.Without(unsupplied)
	supported1 = supported2.Without(later)

	// supported0 are those of minor version 0: it has no attribute after
	// mounted_on_fileid.
	supported0 = supported1.And(nfs4.Bitmap{Words: [3]uint32{^uint32(0), 1<<(nfs4.AttrMountedOnFileID+1-32) - 1}})

	// unreadable2, unreadable1 and unreadable0 are the supported attributes that a client can
	// only set.
	unreadable2 = supported2.And(onlySet)
	unreadable1 = supported1.And(onlySet)
	unreadable0 = supported0.And(onlySet)

	// ofServer are the attributes that fillServer sets.
	ofServer = nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrFHExpireType, nfs4.AttrLinkSupport, nfs4.AttrSymlinkSupport,
		nfs4.AttrNamedAttr, nfs4.AttrUniqueHandles, nfs4.AttrLeaseTime, nfs4.AttrRdattrError, nfs4.AttrACLSupport, nfs4.AttrCanSetTime,
		nfs4.AttrHomogeneous, nfs4.AttrMaxFileSize, nfs4.AttrMaxRead, nfs4.AttrMaxWrite, nfs4.AttrTimeDelta,
		nfs4.AttrSuppattrExclCreat, nfs4.AttrFSCharsetCap, nfs4.AttrChangeAttrType)
)

// supported returns the attributes of an object in the COMPOUND's minor version.
// clone_blksize shows that CLONE works (RFC 7862, Section 4.1.2).
func (x *compound) supported(o *object) nfs4.Bitmap {
	ids := supported2
	switch x.minor {
	case nfs4.Minor0:
		ids = supported0
	case nfs4.Minor1:
		ids = supported1
	}
	if o.use == nil {
		return ids
	}
	if o.use.Export.CloneAlign > 0 && x.minor >= nfs4.Minor2 {
		ids.Set(nfs4.AttrCloneBlkSize)
	}
	if o.use.Export.ACLs != nil {
		ids.Set(nfs4.AttrACL)
	}
	return ids
}

// unreadable reports whether any of some attributes is supported, but can only
// be set (RFC 8881, Section 5.5).
func (x *compound) unreadable(ids nfs4.Bitmap) bool {
	only := &unreadable1
	switch x.minor {
	case nfs4.Minor0:
		only = &unreadable0
	case nfs4.Minor2:
		only = &unreadable2
	}
	return ids.Any(only)
}

// getAttr is GETATTR (RFC 8881, Section 18.7).
func getAttr(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.GetAttrArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case x.unreadable(a.Request):
		return nfs4.ErrInval
	}
	res := &x.results.getattr
	res.Status = x.fill(ctx, &x.current, &a.Request, &res.Attrs)
	if res.Status != nfs4.OK {
		return res.Status
	}
	if n := 4 + res.Attrs.ACL.Len(); res.Attrs.Mask.Has(nfs4.AttrACL) && n > shortList {
		if status := x.large(n); status != nfs4.OK {
			return status
		}
	}
	mark := len(x.out)
	x.out = res.AppendTo(x.out)
	if x.left() < 0 {
		x.out = x.out[:mark]
		return x.tooBig()
	}
	return nfs4.OK
}

// fill sets the requested attributes of an object, as far as they are
// supported.
func (x *compound) fill(ctx context.Context, o *object, request *nfs4.Bitmap, out *nfs4.Attrs) nfs4.Status {
	want := request.And(x.supported(o))
	switch {
	case o.absent() && !request.Has(nfs4.AttrFSLocations):
		return nfs4.ErrMoved
	case o.absent():
		x.fillAbsent(o, *request, out)
		return nfs4.OK
	case o.node != nil:
		out.Mask = want
		x.fillNode(ctx, o.node, out)
		return nfs4.OK
	}
	if err := x.work(ctx, o); err != nil {
		return x.status(err)
	}
	a, err := x.attrFor(ctx, o, &want)
	if err != nil {
		return x.status(err)
	}
	return x.fillFrom(ctx, o, &a, want, out)
}

// attrFor returns the attributes of an object that is not a pseudo node, as far as
// want needs them: another client may have to be asked for some.
func (x *compound) attrFor(ctx context.Context, o *object, want *nfs4.Bitmap) (vfs.Attr, error) {
	if want.Any(&ofData) {
		return o.use.GetAttr(ctx, o.h)
	}
	return o.use.Export.FS.GetAttr(ctx, &o.use.Cred, o.h)
}

// fillFrom is fill with attributes that are known already.
func (x *compound) fillFrom(ctx context.Context, o *object, a *vfs.Attr, want nfs4.Bitmap, out *nfs4.Attrs) nfs4.Status {
	u := o.use
	out.Mask = want
	if want.Any(&ofServer) {
		x.fillServer(o, out)
	}
	if want.Has(nfs4.AttrFSLocations) {
		out.FSLocations = x.locations(o)
	}
	out.CloneBlkSize = u.Export.CloneAlign
	out.FSID = nfs4.FSID{Major: a.FSID, Minor: uint64(u.Export.ID)}
	out.Type = nfs4.FileType(a.Type)
	out.Change = changeOf(a)
	out.Size = a.Size
	out.FileID = a.FileID
	out.MountedOnFileID = a.FileID
	if o.h == u.Export.FS.Root() {
		out.MountedOnFileID = x.mountedOn(u.Export, a.FileID)
	}
	out.Mode = a.Mode & modeBits
	out.NumLinks = a.Nlink
	var status nfs4.Status
	if want.Has(nfs4.AttrOwner) {
		if out.Owner, status = x.ownerString(ctx, o, idmap.User, a.UID, x.owner[0][:0]); status != nfs4.OK {
			return status
		}
	}
	if want.Has(nfs4.AttrOwnerGroup) {
		if out.OwnerGroup, status = x.ownerString(ctx, o, idmap.Group, a.GID, x.owner[1][:0]); status != nfs4.OK {
			return status
		}
	}
	if want.Has(nfs4.AttrACL) {
		if status := x.fillACL(ctx, o, a.Type == vfs.TypeDir, out); status != nfs4.OK {
			return status
		}
	}
	out.RawDev = nfs4.SpecData{Major: a.Rdev.Major, Minor: a.Rdev.Minor}
	out.SpaceUsed = a.Used
	out.XattrSupport = u.Export.Xattrs != nil
	out.TimeAccess, out.TimeMetadata, out.TimeModify = wireTime(a.Atime), wireTime(a.Ctime), wireTime(a.Mtime)
	out.TimeCreate = wireTime(a.Birth)
	if !a.HasBirth {
		out.Mask.Clear(nfs4.AttrTimeCreate)
	}
	if want.Has(nfs4.AttrFileHandle) {
		out.FileHandle = u.Handle(&o.h)
	}
	if want.Any(&ofFS) {
		fs, _, err := u.Export.FS.StatFS(ctx, &u.Cred, o.h)
		if err != nil {
			return x.status(err)
		}
		out.FilesAvail, out.FilesFree, out.FilesTotal = fs.AvailFiles, fs.FreeFiles, fs.TotalFiles
		out.SpaceAvail, out.SpaceFree, out.SpaceTotal = fs.AvailBytes, fs.FreeBytes, fs.TotalBytes
	}
	if want.Any(&ofPath) {
		p, _, err := u.Export.FS.PathConf(ctx, &u.Cred, o.h)
		if err != nil {
			return x.status(err)
		}
		out.CaseInsensitive, out.CasePreserving = p.CaseInsensitive, p.CasePreserving
		out.ChownRestricted, out.NoTrunc = p.ChownRestricted, p.NoTrunc
		out.MaxLink, out.MaxName = p.LinkMax, p.NameMax
	}
	return nfs4.OK
}

// fillServer sets the attributes that are the same for all objects of an export.
func (x *compound) fillServer(o *object, out *nfs4.Attrs) {
	out.SupportedAttrs = x.supported(o)
	out.FHExpireType = nfs4.FHPersistent
	out.LinkSupport, out.SymlinkSupport, out.NamedAttr = true, true, false
	out.UniqueHandles = false
	out.LeaseTime = uint32(x.server.lease.Seconds())
	out.RdattrError = nfs4.OK
	out.ACLSupport = 0
	if out.SupportedAttrs.Has(nfs4.AttrACL) {
		out.ACLSupport = nfs4.ACLSupportAllow | nfs4.ACLSupportDeny
	}
	out.CanSetTime, out.Homogeneous = true, true
	out.MaxFileSize = realm.MaxFileSize
	out.MaxRead, out.MaxWrite = uint64(x.server.realm.Payload()), uint64(x.server.realm.Payload())
	out.TimeDelta = nfs4.Time{Nsec: 1}
	out.SuppattrExclCreat = out.SupportedAttrs.And(exclusive)
	out.FSCharsetCap = nfs4.CharsetContainsNonUTF8
	out.ChangeAttrType = nfs4.ChangeTypeUndefined
}

// fillNode sets the attributes of a pseudo node.
func (x *compound) fillNode(ctx context.Context, n *node, out *nfs4.Attrs) {
	t := x.tree()
	*out = nfs4.Attrs{Mask: out.Mask}
	x.fillServer(&object{node: n}, out)
	out.Type = nfs4.TypeDir
	out.Change = uint64(t.made.UnixNano())
	out.Size = 4096
	out.FSID = nfs4.FSID{}
	out.FileID, out.MountedOnFileID = n.hash, n.hash
	out.Mode, out.NumLinks = 0o555, 2
	for _, c := range n.children {
		if x.visible(ctx, t, c) {
			out.NumLinks++
		}
	}
	out.Owner, out.OwnerGroup = append(x.owner[0][:0], '0'), append(x.owner[1][:0], '0')
	made := nfs4.Time{Sec: t.made.Unix(), Nsec: uint32(t.made.Nanosecond())}
	out.TimeAccess, out.TimeMetadata, out.TimeModify, out.TimeCreate = made, made, made, made
	out.CasePreserving, out.NoTrunc, out.ChownRestricted = true, true, true
	out.MaxLink, out.MaxName = 255, maxName
	out.XattrSupport = true // see xattrs
	if out.Mask.Has(nfs4.AttrFileHandle) {
		out.FileHandle = x.appendNode(nil, n)
	}
}

// mountedOn returns the fileid of the directory that an export's root covers.
func (x *compound) mountedOn(e *realm.Exported, own uint64) uint64 {
	if n := x.tree().byID[e.ID]; n != nil && n.parent != nil {
		return n.hash
	}
	return own
}

// modeBits are the bits of a mode that the standard defines.
const modeBits = 0o7777

// badMode reports whether a has a mode with other bits.
func badMode(a *nfs4.Attrs) bool { return a.Mask.Has(nfs4.AttrMode) && a.Mode&^modeBits != 0 }

func wireTime(t vfs.Time) nfs4.Time { return nfs4.Time(t) }

// changeOf returns the change attribute of an object.
func changeOf(a *vfs.Attr) uint64 { return changeAt(a.HasChange, a.Change, a.Ctime) }

// changeAt returns the change attribute that a file system has, if it has one.
func changeAt(has bool, change uint64, ctime vfs.Time) uint64 {
	if has {
		return change
	}
	return uint64(ctime.Sec)*1e9 + uint64(ctime.Nsec)
}

// changeInfo returns the effect of a change on an object. It is atomic only if
// nobody but this server changes the export.
func changeInfo(u *use, w *vfs.WCC) nfs4.ChangeInfo {
	c := nfs4.ChangeInfo{Atomic: u.Options.Exclusive && w.Before.OK && w.After.OK}
	if w.After.OK {
		c.After = changeOf(&w.After.Attr)
	}
	if w.Before.OK {
		c.Before = changeAt(w.Before.HasChange, w.Before.Change, w.Before.Ctime)
	}
	return c
}

// verify is VERIFY (RFC 8881, Section 18.31), and nVerify NVERIFY (18.15).
func verify(ctx context.Context, x *compound) nfs4.Status {
	same, status := x.same(ctx)
	if status == nfs4.OK && !same {
		status = nfs4.ErrNotSame
	}
	return x.done(status)
}

func nVerify(ctx context.Context, x *compound) nfs4.Status {
	same, status := x.same(ctx)
	if status == nfs4.OK && same {
		status = nfs4.ErrSame
	}
	return x.done(status)
}

// same compares the attributes in the arguments with the object's.
func (x *compound) same(ctx context.Context) (bool, nfs4.Status) {
	var a nfs4.VerifyArgs
	a.Decode(x.args)
	unknown, unavailable := a.Attrs.Mask.Without(x.supported(&x.current)), a.Attrs.Mask.Without(ofAbsent)
	switch {
	case x.args.Err() != nil:
		return false, nfs4.ErrBadXDR
	case x.current.absent() && !unavailable.Empty(): // RFC 8881, Section 11.4.1
		return false, nfs4.ErrMoved
	case a.Attrs.Mask.Has(nfs4.AttrRdattrError), x.unreadable(a.Attrs.Mask), badMode(&a.Attrs):
		return false, nfs4.ErrInval
	case !unknown.Empty():
		return false, nfs4.ErrAttrNotSupp
	}
	if status := x.canonical(ctx, &a.Attrs); status != nfs4.OK {
		return false, status
	}
	have := &x.results.getattr.Attrs
	if status := x.fill(ctx, &x.current, &a.Attrs.Mask, have); status != nfs4.OK {
		return false, status
	}
	return bytes.Equal(a.Attrs.AppendTo(nil), have.AppendTo(nil)), nfs4.OK
}

// canonical makes attributes of the current object comparable by their wire form
// (RFC 8881, Section 18.15.4).
func (x *compound) canonical(ctx context.Context, a *nfs4.Attrs) (status nfs4.Status) {
	if x.current.node != nil {
		return nfs4.OK
	}
	if a.Mask.Has(nfs4.AttrOwner) {
		a.Owner, status = x.canonicalOwner(ctx, idmap.User, a.Owner)
	}
	if a.Mask.Has(nfs4.AttrOwnerGroup) && status == nfs4.OK {
		a.OwnerGroup, status = x.canonicalOwner(ctx, idmap.Group, a.OwnerGroup)
	}
	if a.Mask.Has(nfs4.AttrACL) && status == nfs4.OK {
		status = x.canonicalACL(ctx, a.ACL)
	}
	return status
}

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

// mayChange refuses changes of the pseudo file system and of read-only exports.
func (x *compound) mayChange(o *object) nfs4.Status {
	if o.node != nil || o.use.Options.ReadOnly {
		return nfs4.ErrROFS
	}
	return nfs4.OK
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
