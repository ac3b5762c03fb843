package nfs4server

import (
	"bytes"
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// enter returns the COMPOUND's use of an export. Only one use has a permit: a
// COMPOUND that waited for a second would keep the first from others.
func (x *compound) enter(id uint32) (*use, error) {
	for _, u := range x.uses {
		if u.id == id {
			x.alone(u)
			return u, nil
		}
	}
	u := x.newUse()
	if err := u.Enter(id); err != nil {
		return nil, err
	}
	u.id = id
	x.alone(u)
	return u, nil
}

// newUse adds a use that has not entered an export.
func (x *compound) newUse() *use {
	var u *use
	if n := len(x.spare); n > 0 {
		u, x.spare = x.spare[n-1], x.spare[:n-1]
	} else {
		u = new(use)
	}
	u.Begin(x.server.realm, x.call.Peer, &x.call.Cred, x.reply)
	if x.session != nil && x.minor > nfs4.Minor0 { // in version 4.0 anybody may name any client
		u.Client = x.session.ClientID()
	}
	x.uses = append(x.uses, u)
	return u
}

// alone ends the work of all other uses.
func (x *compound) alone(u *use) {
	for _, other := range x.uses {
		if other != u {
			other.Rest()
		}
	}
}

// work begins the work of an object's export, which may have rested.
func (x *compound) work(ctx context.Context, o *object) error {
	if o.use == nil {
		return nil
	}
	x.alone(o.use)
	return o.use.Work(ctx)
}

// putFH is PUTFH (RFC 8881, Section 18.19).
func putFH(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.HandleArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	return x.done(x.judge(x.put(ctx, a.Object)))
}

// put makes the object of a filehandle the current one, also if the error is
// of its security.
func (x *compound) put(ctx context.Context, fh []byte) error {
	if len(fh) > 0 && fh[0] == pseudoVersion {
		n, err := x.parseNode(fh)
		if err == nil {
			x.current = object{node: n}
		}
		return err
	}
	id, err := x.server.realm.ExportOf(fh)
	if err != nil {
		return err
	}
	u, err := x.enter(id)
	if err != nil {
		return err
	}
	h, err := u.Open(ctx, fh)
	if err == nil || realm.BySecurity(err) {
		x.current = object{use: u, h: h, refused: err != nil}
	}
	return err
}

// putRootFH is PUTROOTFH and PUTPUBFH (RFC 8881, Sections 18.20 and 18.21).
func putRootFH(ctx context.Context, x *compound) nfs4.Status {
	return x.done(x.judge(x.goTo(ctx, x.tree().root)))
}

// getFH is GETFH (RFC 8881, Section 18.8).
func getFH(_ context.Context, x *compound) nfs4.Status {
	res := nfs4.HandleRes{Object: x.fh(&x.current)}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// fh returns the filehandle of an object, which is valid until the next call.
func (x *compound) fh(o *object) nfs4.FH {
	if o.use == nil {
		return x.appendNode(x.handle[:0], o.node)
	}
	return o.use.Handle(&o.h)
}

// saveFH is SAVEFH (RFC 8881, Section 18.28), and restoreFH RESTOREFH (18.27).
func saveFH(_ context.Context, x *compound) nfs4.Status {
	x.saved = x.current
	return x.done(nfs4.OK)
}

func restoreFH(_ context.Context, x *compound) nfs4.Status {
	x.current = x.saved
	if x.current.refused {
		return x.done(x.judge(realm.WrongSec))
	}
	return x.done(nfs4.OK)
}

// checkName returns the status of a name that no file system should be asked
// about (RFC 8881, Section 14.4; RFC 7530, Section 12.7).
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

// maxName is the longest name of Linux's file systems, in bytes.
const maxName = 255

// lookup is LOOKUP (RFC 8881, Section 18.13).
func lookup(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.NameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	return x.done(x.lookupName(ctx, a.Name))
}

func (x *compound) lookupName(ctx context.Context, name []byte) nfs4.Status {
	if x.current.refused {
		return x.lookupRefused(ctx, name)
	}
	if status := x.directory(ctx, &x.current); status != nfs4.OK {
		return status
	}
	if status := x.checkName(name); status != nfs4.OK {
		return status
	}
	if n := x.current.node; n != nil {
		t := x.tree()
		for _, c := range n.children {
			if c.name != string(name) {
				continue
			}
			switch is, err := x.sees(ctx, t, c); {
			case is:
				return x.status(x.goTo(ctx, c))
			case err != nil:
				return x.status(err)
			}
		}
		return nfs4.ErrNoEnt
	}
	if c := x.junction(ctx, &x.current, string(name)); c != nil {
		return x.status(x.goTo(ctx, c))
	}
	u := x.current.use
	h, _, _, err := u.Export.FS.Lookup(ctx, &u.Cred, x.current.h, string(name))
	if err != nil {
		return x.status(err)
	}
	x.current = object{use: u, h: h}
	return nfs4.OK
}

// lookupP is LOOKUPP (RFC 8881, Section 18.14).
func lookupP(ctx context.Context, x *compound) nfs4.Status {
	if x.current.refused {
		return x.done(x.lookupPRefused(ctx))
	}
	if status := x.directory(ctx, &x.current); status != nfs4.OK {
		return status
	}
	o := &x.current
	switch {
	case o.node != nil && o.node.parent == nil:
		return nfs4.ErrNoEnt
	case o.node != nil:
		return x.done(x.status(x.goTo(ctx, o.node.parent)))
	case o.h == o.use.Export.FS.Root():
		return x.done(x.status(x.above(ctx, o.use.Export)))
	}
	h, _, _, err := o.use.Export.FS.Lookup(ctx, &o.use.Cred, o.h, "..")
	if err == nil {
		x.current = object{use: o.use, h: h}
	}
	return x.done(x.status(err))
}

// directory returns OK if o is a directory, and otherwise NFS4ERR_SYMLINK or
// NFS4ERR_NOTDIR.
func (x *compound) directory(ctx context.Context, o *object) nfs4.Status {
	if o.node != nil {
		return nfs4.OK
	}
	a, status := x.attr(ctx, o)
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

// regular returns OK if a is of a regular file, and otherwise the status of an
// operation that needs one (RFC 8881, Section 15.1.2.9).
func regular(a *vfs.Attr) nfs4.Status {
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

// attr returns the attributes of an object that is not a pseudo node.
func (x *compound) attr(ctx context.Context, o *object) (vfs.Attr, nfs4.Status) {
	if err := x.work(ctx, o); err != nil {
		return vfs.Attr{}, x.status(err)
	}
	a, err := o.use.Export.FS.GetAttr(ctx, &o.use.Cred, o.h)
	return a, x.status(err)
}

// access is ACCESS (RFC 8881, Section 18.1).
func access(ctx context.Context, x *compound) nfs4.Status {
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
		if err := x.work(ctx, &x.current); err != nil {
			return x.status(err)
		}
		rights, attr, err := u.Export.FS.Access(ctx, &u.Cred, x.current.h, a.Access&known|forXattrs(a.Access))
		if err != nil {
			return x.status(err)
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

// forXattrs returns the rights on which the rights to extended attributes depend:
// reading an attribute is reading, and changing it is writing. Listing needs no
// right on a host.
func forXattrs(asked uint32) (rights uint32) {
	if asked&nfs4.AccessXARead != 0 {
		rights |= nfs4.AccessRead
	}
	if asked&nfs4.AccessXAWrite != 0 {
		rights |= nfs4.AccessModify
	}
	return rights
}

// xattrRights returns the rights to extended attributes that follow from others.
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
