package nfs4server

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// Attribute sets, by their needs and uses.
var (
	// writeOnlyAttrs are the attributes that a client can set but not get.
	writeOnlyAttrs = nfs4.BitmapOf(nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet, nfs4.AttrModeSetMasked, nfs4.AttrModeUmask,
		nfs4.AttrTimeDelegAccess, nfs4.AttrTimeDelegModify)

	// settableAttrs are the attributes that SETATTR can set. OPEN and CREATE can set them and
	// ModeUmask.
	settableAttrs = nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrACL, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup,
		nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet, nfs4.AttrModeSetMasked)

	// exclusiveAttrs are the attributes that an exclusive create can set: it stores its
	// verifier in the times.
	exclusiveAttrs = nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrACL, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrModeUmask)

	// spaceAttrs need StatFS, and pathConfAttrs need PathConf.
	spaceAttrs = nfs4.BitmapOf(nfs4.AttrFilesAvail, nfs4.AttrFilesFree, nfs4.AttrFilesTotal,
		nfs4.AttrSpaceAvail, nfs4.AttrSpaceFree, nfs4.AttrSpaceTotal)
	pathConfAttrs = nfs4.BitmapOf(nfs4.AttrCaseInsensitive, nfs4.AttrCasePreserving, nfs4.AttrChownRestricted,
		nfs4.AttrMaxLink, nfs4.AttrMaxName, nfs4.AttrNoTrunc)

	// fileSystemAttrs describe a file system, so that an automount must have mounted it.
	fileSystemAttrs = nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrFilesAvail, nfs4.AttrFilesFree, nfs4.AttrFilesTotal,
		nfs4.AttrSpaceAvail, nfs4.AttrSpaceFree, nfs4.AttrSpaceTotal,
		nfs4.AttrCaseInsensitive, nfs4.AttrCasePreserving, nfs4.AttrChownRestricted, nfs4.AttrMaxLink, nfs4.AttrMaxName, nfs4.AttrNoTrunc)

	// dataAttrs change when a client with a write delegation writes to its cache, or reads from it.
	dataAttrs = nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrTimeAccess, nfs4.AttrTimeMetadata, nfs4.AttrTimeModify)

	// delegatedTimes are the times that a client with an attribute delegation sets. They are
	// supported if there are write delegations.
	delegatedTimes = nfs4.BitmapOf(nfs4.AttrTimeDelegAccess, nfs4.AttrTimeDelegModify)

	// minor2Attrs exist only in minor version 2. The supportedMinor variables are the
	// attributes of each minor version.
	minor2Attrs     = nfs4.BitmapOf(nfs4.AttrChangeAttrType, nfs4.AttrModeUmask, nfs4.AttrXattrSupport, nfs4.AttrOpenArguments)
	optionalAttrs   = nfs4.BitmapOf(nfs4.AttrACL, nfs4.AttrCloneBlkSize, nfs4.AttrTimeDelegAccess, nfs4.AttrTimeDelegModify) // unless supportedAttrs adds them
	supportedMinor2 = nfs4.Known.Without(optionalAttrs)
	supportedMinor1 = supportedMinor2.Without(minor2Attrs)

	// Minor version 0 has no attribute after mounted_on_fileid.
	supportedMinor0 = supportedMinor1.And(nfs4.Bitmap{Words: [3]uint32{^uint32(0), 1<<(nfs4.AttrMountedOnFileID+1-32) - 1}})

	// The writeOnlyMinor variables are the supported attributes that a client can only set.
	writeOnlyMinor2 = supportedMinor2.And(writeOnlyAttrs)
	writeOnlyMinor1 = supportedMinor1.And(writeOnlyAttrs)
	writeOnlyMinor0 = supportedMinor0.And(writeOnlyAttrs)

	// serverAttrs are the attributes that fillServerAttrs sets.
	serverAttrs = nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrFHExpireType, nfs4.AttrLinkSupport, nfs4.AttrSymlinkSupport,
		nfs4.AttrNamedAttr, nfs4.AttrUniqueHandles, nfs4.AttrLeaseTime, nfs4.AttrRdattrError, nfs4.AttrACLSupport, nfs4.AttrCanSetTime,
		nfs4.AttrHomogeneous, nfs4.AttrMaxFileSize, nfs4.AttrMaxRead, nfs4.AttrMaxWrite, nfs4.AttrTimeDelta,
		nfs4.AttrSuppattrExclCreat, nfs4.AttrFSCharsetCap, nfs4.AttrChangeAttrType, nfs4.AttrOpenArguments)
)

// supportedAttrs returns an object's attributes in the COMPOUND's minor version. clone_blksize
// shows that CLONE works (RFC 7862, Section 4.1.2).
func (x *compound) supportedAttrs(o *object) nfs4.Bitmap {
	ids := supportedMinor2
	switch x.minor {
	case nfs4.Minor0:
		ids = supportedMinor0
	case nfs4.Minor1:
		ids = supportedMinor1
	}
	if x.grantsTimes() {
		ids.Set(nfs4.AttrTimeDelegAccess)
		ids.Set(nfs4.AttrTimeDelegModify)
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

// anyWriteOnly reports whether any of the given attributes is supported but can only be set
// (RFC 8881, Section 5.5).
func (x *compound) anyWriteOnly(ids nfs4.Bitmap) bool {
	only := &writeOnlyMinor1
	switch x.minor {
	case nfs4.Minor0:
		only = &writeOnlyMinor0
	case nfs4.Minor2:
		only = &writeOnlyMinor2
	}
	return ids.Any(only) || ids.Any(&delegatedTimes) && x.grantsTimes()
}

// serveGetAttr is GETATTR (RFC 8881, Section 18.7).
func serveGetAttr(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.GetAttrArgs
	a.Decode(x.args)
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case x.anyWriteOnly(a.Request):
		return nfs4.ErrInval
	}
	res := &x.results.getattr
	res.Status = x.fillAttrs(ctx, &x.current, &a.Request, &res.Attrs)
	if res.Status != nfs4.OK {
		return res.Status
	}
	if n := 4 + res.Attrs.ACL.Len(); res.Attrs.Mask.Has(nfs4.AttrACL) && n > maxUnreserved {
		if status := x.reserveResults(n); status != nfs4.OK {
			return status
		}
	}
	mark := len(x.out)
	x.out = res.AppendTo(x.out)
	if x.bytesLeft() < 0 {
		x.out = x.out[:mark]
		return x.tooBigStatus()
	}
	return nfs4.OK
}

// fillAttrs sets an object's requested attributes that are supported.
func (x *compound) fillAttrs(ctx context.Context, o *object, request *nfs4.Bitmap, out *nfs4.Attrs) nfs4.Status {
	want := request.And(x.supportedAttrs(o))
	switch {
	case o.isAbsent() && !request.Has(nfs4.AttrFSLocations):
		return nfs4.ErrMoved
	case o.isAbsent():
		x.fillAbsentAttrs(o, *request, out)
		return nfs4.OK
	case o.node != nil:
		out.Mask = want
		x.fillNodeAttrs(ctx, o.node, out)
		return nfs4.OK
	}
	if err := x.acquirePermit(ctx, o); err != nil {
		return x.toStatus(err)
	}
	if want.Any(&fileSystemAttrs) {
		if err := o.use.Export.TriggerAutomount(); err != nil {
			return x.toStatus(err)
		}
	}
	a, err := x.fetchAttr(ctx, o, &want)
	if err != nil {
		return x.toStatus(err)
	}
	return x.fillFromAttr(ctx, o, &a, want, out)
}

// fetchAttr returns the attributes of an object that is not a pseudo node. If want contains
// data attributes, it may have to query another client.
func (x *compound) fetchAttr(ctx context.Context, o *object, want *nfs4.Bitmap) (vfs.Attr, error) {
	if want.Any(&dataAttrs) {
		return o.use.GetAttr(ctx, o.h)
	}
	return o.use.Export.FS.GetAttr(ctx, &o.use.Cred, o.h)
}

// fillFromAttr sets an object's wanted attributes, given the result of GetAttr.
func (x *compound) fillFromAttr(ctx context.Context, o *object, a *vfs.Attr, want nfs4.Bitmap, out *nfs4.Attrs) nfs4.Status {
	u := o.use
	out.Mask = want
	if want.Any(&serverAttrs) {
		x.fillServerAttrs(o, out)
	}
	if want.Has(nfs4.AttrFSLocations) {
		out.FSLocations = x.fsLocations(o)
	}
	out.CloneBlkSize = u.Export.CloneAlign
	out.FSID = nfs4.FSID{Major: a.FSID, Minor: uint64(u.Export.ID)}
	out.Type = nfs4.FileType(a.Type)
	out.Change = changeAttr(a)
	out.Size = a.Size
	out.FileID = a.FileID
	out.MountedOnFileID = a.FileID
	if o.h == u.Export.FS.Root() {
		out.MountedOnFileID = x.mountedOnFileID(u.Export, a.FileID)
	}
	out.Mode = a.Mode & modeBits
	out.NumLinks = a.Nlink
	var status nfs4.Status
	if want.Has(nfs4.AttrOwner) {
		if out.Owner, status = x.ownerString(ctx, o, idmap.User, a.UID, x.ownerBufs[0][:0]); status != nfs4.OK {
			return status
		}
	}
	if want.Has(nfs4.AttrOwnerGroup) {
		if out.OwnerGroup, status = x.ownerString(ctx, o, idmap.Group, a.GID, x.ownerBufs[1][:0]); status != nfs4.OK {
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
	out.TimeAccess, out.TimeMetadata, out.TimeModify = toWireTime(a.Atime), toWireTime(a.Ctime), toWireTime(a.Mtime)
	out.TimeCreate = toWireTime(a.Birth)
	if !a.HasBirth {
		out.Mask.Clear(nfs4.AttrTimeCreate)
	}
	if want.Has(nfs4.AttrFileHandle) {
		out.FileHandle = u.Handle(&o.h)
	}
	if want.Any(&spaceAttrs) {
		fs, _, err := u.Export.FS.StatFS(ctx, &u.Cred, o.h)
		if err != nil {
			return x.toStatus(err)
		}
		out.FilesAvail, out.FilesFree, out.FilesTotal = fs.AvailFiles, fs.FreeFiles, fs.TotalFiles
		out.SpaceAvail, out.SpaceFree, out.SpaceTotal = fs.AvailBytes, fs.FreeBytes, fs.TotalBytes
	}
	if want.Any(&pathConfAttrs) {
		p, _, err := u.Export.FS.PathConf(ctx, &u.Cred, o.h)
		if err != nil {
			return x.toStatus(err)
		}
		out.CaseInsensitive, out.CasePreserving = p.CaseInsensitive, p.CasePreserving
		out.ChownRestricted, out.NoTrunc = p.ChownRestricted, p.NoTrunc
		out.MaxLink, out.MaxName = p.LinkMax, p.NameMax
	}
	return nfs4.OK
}

// fillServerAttrs sets the attributes that are the same for all objects in an export.
func (x *compound) fillServerAttrs(o *object, out *nfs4.Attrs) {
	out.SupportedAttrs = x.supportedAttrs(o)
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
	out.MaxFileSize = exportset.MaxFileSize
	out.MaxRead, out.MaxWrite = uint64(x.server.exports.Payload()), uint64(x.server.exports.Payload())
	out.TimeDelta = nfs4.Time{Nsec: 1}
	out.SuppattrExclCreat = out.SupportedAttrs.And(exclusiveAttrs)
	out.FSCharsetCap = nfs4.CharsetContainsNonUTF8
	out.ChangeAttrType = nfs4.ChangeTypeUndefined
	if o.use == nil || o.use.Export.OrdersChanges { // a pseudo node never changes
		out.ChangeAttrType = nfs4.ChangeTypeTimeMetadata
	}
	out.OpenArguments = x.server.openArguments()
}

// openArguments returns what OPEN supports, in all exports: the wants only if there are delegations
// for them (RFC 9754, Section 3). OPEN accepts other wants, but ignores them.
func (s *Server) openArguments() nfs4.OpenArguments {
	a := nfs4.OpenArguments{
		ShareAccess:     nfs4.BitmapOf(nfs4.OpenArgRead, nfs4.OpenArgWrite, nfs4.OpenArgBoth),
		ShareDeny:       nfs4.BitmapOf(nfs4.OpenArgNone, nfs4.OpenArgRead, nfs4.OpenArgWrite, nfs4.OpenArgBoth),
		ShareAccessWant: nfs4.BitmapOf(nfs4.OpenArgWantAnyDeleg, nfs4.OpenArgWantNoDeleg, nfs4.OpenArgWantCancel),
		OpenClaim: nfs4.BitmapOf(nfs4.OpenArg(nfs4.ClaimNull), nfs4.OpenArg(nfs4.ClaimPrevious), nfs4.OpenArg(nfs4.ClaimDelegateCur),
			nfs4.OpenArg(nfs4.ClaimFH), nfs4.OpenArg(nfs4.ClaimDelegCurFH)),
		CreateMode: nfs4.BitmapOf(nfs4.OpenArg(nfs4.Unchecked), nfs4.OpenArg(nfs4.Guarded), nfs4.OpenArg(nfs4.Exclusive),
			nfs4.OpenArg(nfs4.Exclusive1)),
	}
	if s.writeDelegations {
		a.ShareAccessWant.Words[0] |= nfs4.WantDelegTimestamps
	}
	if s.readDelegations || s.writeDelegations {
		a.ShareAccessWant.Words[0] |= nfs4.WantOpenXorDelegation // the attribute's bits are share_access's
	}
	return a
}

// fillNodeAttrs sets a pseudo node's attributes.
func (x *compound) fillNodeAttrs(ctx context.Context, n *node, out *nfs4.Attrs) {
	t := x.currentTree()
	*out = nfs4.Attrs{Mask: out.Mask}
	x.fillServerAttrs(&object{node: n}, out)
	out.Type = nfs4.TypeDir
	out.Change = uint64(t.created.UnixNano())
	out.Size = 4096
	out.FSID = nfs4.FSID{}
	out.FileID, out.MountedOnFileID = n.hash, n.hash
	out.Mode, out.NumLinks = 0o555, 2
	for _, c := range n.children {
		if x.isVisible(ctx, t, c) {
			out.NumLinks++
		}
	}
	out.Owner, out.OwnerGroup = append(x.ownerBufs[0][:0], '0'), append(x.ownerBufs[1][:0], '0')
	made := nfs4.Time{Sec: t.created.Unix(), Nsec: uint32(t.created.Nanosecond())}
	out.TimeAccess, out.TimeMetadata, out.TimeModify, out.TimeCreate = made, made, made, made
	out.CasePreserving, out.NoTrunc, out.ChownRestricted = true, true, true
	out.MaxLink, out.MaxName = 255, maxName
	out.XattrSupport = true // see checkXattrs
	if out.Mask.Has(nfs4.AttrFileHandle) {
		out.FileHandle = x.appendNodeHandle(nil, n)
	}
}

// mountedOnFileID returns the fileid of the directory that an export's root covers.
func (x *compound) mountedOnFileID(e *exportset.Exported, fileID uint64) uint64 {
	if id := e.MountedOn(); id != 0 {
		return id
	}
	if n := x.currentTree().byID[e.ID]; n != nil && n.parent != nil {
		return n.hash
	}
	return fileID
}

// modeBits are the mode bits that the standard defines.
const modeBits = 0o7777

// hasBadMode reports whether a has a mode with other bits.
func hasBadMode(a *nfs4.Attrs) bool { return a.Mask.Has(nfs4.AttrMode) && a.Mode&^modeBits != 0 }

func toWireTime(t vfs.Time) nfs4.Time { return nfs4.Time(t) }

// changeAttr returns an object's change attribute.
func changeAttr(a *vfs.Attr) uint64 { return changeOrCtime(a.HasChange, a.Change, a.Ctime) }

// changeOrCtime returns the file system's change attribute, or one derived from ctime if it has
// none.
func changeOrCtime(hasChange bool, change uint64, ctime vfs.Time) uint64 {
	if hasChange {
		return change
	}
	return uint64(ctime.Sec)*1e9 + uint64(ctime.Nsec)
}
