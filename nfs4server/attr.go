package nfs4server

import (
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
