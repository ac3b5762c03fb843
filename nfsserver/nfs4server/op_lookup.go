package nfs4server

import (
	"bytes"
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// enterExport returns the COMPOUND's use of an export. Only one use has a permit: a COMPOUND
// that waited for a second one would keep the first from others.
func (x *compound) enterExport(id uint32) (*exportUse, error) {
	for _, u := range x.uses {
		if u.Export != nil && u.Export.HasID(id) {
			x.releaseOthers(u)
			return u, nil
		}
	}
	u := x.newUse()
	if err := u.EnterExport(id); err != nil {
		return nil, err
	}
	x.releaseOthers(u)
	return u, nil
}

// newUse adds an exportUse that has not entered an export.
func (x *compound) newUse() *exportUse {
	var u *exportUse
	if n := len(x.spareUses); n > 0 {
		u, x.spareUses = x.spareUses[n-1], x.spareUses[:n-1]
	} else {
		u = new(exportUse)
	}
	u.Begin(x.server.exports, x.call.Peer, &x.call.Cred, x.reply)
	if x.session != nil && x.minor > nfs4.Minor0 { // any NFSv4.0 caller may name any client
		u.Client = x.session.ClientID()
	}
	x.uses = append(x.uses, u)
	return u
}

// releaseOthers releases the permits of all other uses.
func (x *compound) releaseOthers(u *exportUse) {
	for _, other := range x.uses {
		if other != u {
			other.ReleasePermit()
		}
	}
}

// acquirePermit acquires a permit for an object's export, which may have been released.
func (x *compound) acquirePermit(ctx context.Context, o *object) error {
	if o.use == nil {
		return nil
	}
	x.releaseOthers(o.use)
	return o.use.AcquirePermit(ctx)
}

// servePutFH implements PUTFH (RFC 8881, Section 18.19).
func servePutFH(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.HandleArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	status := x.deferWrongSec(x.setCurrentFH(ctx, a.Object))
	if status == nfs4.ErrStale {
		x.freeLostStateID()
	}
	return x.appendStatus(status)
}

// setCurrentFH makes a filehandle's object the current one, even if the export's security
// causes an error.
func (x *compound) setCurrentFH(ctx context.Context, fh []byte) error {
	if len(fh) > 0 && fh[0] == pseudoVersion {
		n, err := x.parseNodeHandle(fh)
		if err == nil {
			x.current = object{node: n}
		}
		return err
	}
	id, err := x.server.exports.ExportOf(fh)
	if err != nil {
		return err
	}
	u, err := x.enterExport(id)
	if err != nil {
		return err
	}
	h, err := u.Open(ctx, fh)
	x.setCurrentObject(ctx, u, h, err)
	return err
}

// servePutRootFH implements PUTROOTFH and PUTPUBFH (RFC 8881, Sections 18.20 and 18.21).
func servePutRootFH(ctx context.Context, x *compound) nfs4.Status {
	return x.appendStatus(x.deferWrongSec(x.goToNode(ctx, x.currentTree().root)))
}

// serveGetFH implements GETFH (RFC 8881, Section 18.8).
func serveGetFH(_ context.Context, x *compound) nfs4.Status {
	res := nfs4.HandleRes{Object: x.fileHandle(&x.current)}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// fileHandle returns an object's filehandle, which is valid until the next call.
func (x *compound) fileHandle(o *object) nfs4.FH {
	if o.use == nil {
		return x.appendNodeHandle(x.handleBuf[:0], o.node)
	}
	return o.use.Handle(&o.h)
}

// serveSaveFH implements SAVEFH (RFC 8881, Section 18.28), and serveRestoreFH RESTOREFH
// (18.27).
func serveSaveFH(_ context.Context, x *compound) nfs4.Status {
	x.saved = x.current
	return x.appendStatus(nfs4.OK)
}

func serveRestoreFH(_ context.Context, x *compound) nfs4.Status {
	x.current = x.saved
	if x.current.wrongSec {
		return x.appendStatus(x.deferWrongSec(exportset.WrongSec))
	}
	return x.appendStatus(nfs4.OK)
}

// checkName returns the status for a name that must not reach a file system (RFC 8881, Section
// 14.4; RFC 7530, Section 12.7).
func (x *compound) checkName(name []byte) nfs4.Status {
	switch {
	case len(name) == 0:
		return nfs4.ErrInval
	case len(name) > maxName:
		return nfs4.ErrNameTooLong
	case string(name) == ".", string(name) == "..":
		return nfs4.ErrBadName
	case bytes.IndexByte(name, '/') < 0 && bytes.IndexByte(name, 0) < 0:
		return nfs4.OK
	case x.minor == nfs4.Minor0:
		return nfs4.ErrBadChar
	}
	return nfs4.ErrBadName
}

// maxName is the maximum length in bytes of a name in Linux file systems.
const maxName = 255

// serveLookup implements LOOKUP (RFC 8881, Section 18.13).
func serveLookup(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.NameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	return x.appendStatus(x.lookupName(ctx, a.Name))
}

func (x *compound) lookupName(ctx context.Context, name []byte) nfs4.Status {
	if x.current.wrongSec {
		return x.lookupWrongSec(ctx, name)
	}
	if status := x.checkDirectory(ctx, &x.current); status != nfs4.OK {
		return status
	}
	if status := x.checkName(name); status != nfs4.OK {
		return status
	}
	if n := x.current.node; n != nil {
		t := x.currentTree()
		for _, c := range n.children {
			if c.name != string(name) {
				continue
			}
			switch is, err := x.checkVisible(ctx, t, c); {
			case is:
				return x.toStatus(x.goToNode(ctx, c))
			case err != nil:
				return x.toStatus(err)
			case c.export != nil:
				x.server.exports.LogRejection(x.call.Peer, c.export, exportset.Access)
			}
		}
		return nfs4.ErrNoEnt
	}
	if c := x.findJunction(ctx, &x.current, string(name)); c != nil {
		return x.toStatus(x.goToNode(ctx, c))
	}
	u := x.current.use
	h, _, _, err := u.Export.FS.Lookup(ctx, &u.Cred, x.current.h, string(name))
	if err != nil {
		return x.toStatus(err)
	}
	x.current = object{use: u, h: h}
	return nfs4.OK
}

// serveLookupP implements LOOKUPP (RFC 8881, Section 18.14).
func serveLookupP(ctx context.Context, x *compound) nfs4.Status {
	if x.current.wrongSec {
		return x.appendStatus(x.lookupParentWrongSec(ctx))
	}
	if status := x.checkDirectory(ctx, &x.current); status != nfs4.OK {
		return status
	}
	o := &x.current
	switch {
	case o.node != nil && o.node.parent == nil:
		return nfs4.ErrNoEnt
	case o.node != nil:
		return x.appendStatus(x.toStatus(x.goToNode(ctx, o.node.parent)))
	case o.h == o.use.Export.FS.Root():
		return x.appendStatus(x.toStatus(x.goToParent(ctx, o.use.Export)))
	}
	h, _, _, err := o.use.Export.FS.Lookup(ctx, &o.use.Cred, o.h, "..")
	if err == nil {
		x.current = object{use: o.use, h: h}
	}
	return x.appendStatus(x.toStatus(err))
}

// checkDirectory returns OK if o is a directory, otherwise NFS4ERR_SYMLINK or NFS4ERR_NOTDIR.
func (x *compound) checkDirectory(ctx context.Context, o *object) nfs4.Status {
	if o.node != nil {
		return nfs4.OK
	}
	a, status := x.getAttr(ctx, o)
	switch {
	case status != nfs4.OK:
		return status
	case a.Type == vfs.TypeDir:
		return nfs4.OK
	case a.Type == vfs.TypeLnk:
		return nfs4.ErrSymlink
	}
	return nfs4.ErrNotDir
}

// checkRegular returns OK if a belongs to a regular file, otherwise the status for an operation
// that requires one (RFC 8881, Section 15.1.2.9).
func checkRegular(a *vfs.Attr) nfs4.Status {
	switch a.Type {
	case vfs.TypeReg:
		return nfs4.OK
	case vfs.TypeDir:
		return nfs4.ErrIsDir
	case vfs.TypeLnk:
		return nfs4.ErrSymlink
	}
	return nfs4.ErrWrongType
}

// getAttr returns the attributes of an object that is not a pseudo node.
func (x *compound) getAttr(ctx context.Context, o *object) (vfs.Attr, nfs4.Status) {
	if err := x.acquirePermit(ctx, o); err != nil {
		return vfs.Attr{}, x.toStatus(err)
	}
	a, err := o.use.Export.FS.GetAttr(ctx, &o.use.Cred, o.h)
	return a, x.toStatus(err)
}

// serveAccess implements ACCESS (RFC 8881, Section 18.1).
func serveAccess(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.AccessArgs
	a.Decode(x.args)
	const known = nfs4.AccessRead | nfs4.AccessLookup | nfs4.AccessModify | nfs4.AccessExtend | nfs4.AccessDelete | nfs4.AccessExecute
	const extended = nfs4.AccessXARead | nfs4.AccessXAWrite | nfs4.AccessXAList
	switch {
	case x.args.Err() != nil:
		return nfs4.ErrBadXDR
	case a.Access&^(known|extended) != 0:
		return nfs4.ErrInval
	}
	res := nfs4.AccessRes{Supported: a.Access & known}
	if x.current.node != nil {
		if x.minor >= nfs4.Minor2 {
			res.Supported = a.Access
		}
		res.Access = res.Supported & (nfs4.AccessRead | nfs4.AccessLookup | nfs4.AccessXARead | nfs4.AccessXAList)
		res.Supported &^= nfs4.AccessExecute
	} else {
		u := x.current.use
		if err := x.acquirePermit(ctx, &x.current); err != nil {
			return x.toStatus(err)
		}
		rights, attr, err := u.Export.FS.Access(ctx, &u.Cred, x.current.h, a.Access&known|rightsForXattrs(a.Access))
		if err != nil {
			return x.toStatus(err)
		}
		if attr.OK && attr.Type == vfs.TypeDir {
			res.Supported &^= nfs4.AccessExecute
		} else if attr.OK {
			res.Supported &^= nfs4.AccessLookup | nfs4.AccessDelete
		}
		if x.minor >= nfs4.Minor2 && u.Export.Xattrs != nil && attr.OK && (attr.Type == vfs.TypeReg || attr.Type == vfs.TypeDir) {
			res.Supported |= a.Access & extended
			rights |= xattrRights(rights)
		}
		if u.Options.ReadOnly {
			rights &^= nfs4.AccessModify | nfs4.AccessExtend | nfs4.AccessDelete | nfs4.AccessXAWrite
		}
		res.Access = rights & res.Supported
	}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// rightsForXattrs returns the rights from which xattrRights derives the requested rights to
// extended attributes: reading an attribute requires read access, and changing it requires
// write access. Listing requires no right on a host.
func rightsForXattrs(asked uint32) (rights uint32) {
	if asked&nfs4.AccessXARead != 0 {
		rights |= nfs4.AccessRead
	}
	if asked&nfs4.AccessXAWrite != 0 {
		rights |= nfs4.AccessModify
	}
	return rights
}

// xattrRights returns the rights to extended attributes that follow from other rights.
func xattrRights(rights uint32) (out uint32) {
	out = nfs4.AccessXAList
	if rights&nfs4.AccessRead != 0 {
		out |= nfs4.AccessXARead
	}
	if rights&nfs4.AccessModify != 0 {
		out |= nfs4.AccessXAWrite
	}
	return out
}
