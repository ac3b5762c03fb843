package nfs4server

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// toChange checks the directory o in which a name is to change.
func (x *compound) toChange(ctx context.Context, o *object, name []byte) nfs4.Status {
	if status := x.directory(ctx, o); status != nfs4.OK {
		if status == nfs4.ErrSymlink {
			status = nfs4.ErrNotDir
		}
		return status
	}
	if status := x.checkName(name); status != nfs4.OK {
		return status
	}
	if status := x.mayChange(o); status != nfs4.OK {
		return status
	}
	if x.junction(ctx, o, string(name)) != nil {
		return nfs4.ErrXDev // the name leads to another export
	}
	return nfs4.OK
}

// create is CREATE (RFC 8881, Section 18.4).
func create(ctx context.Context, x *compound) nfs4.Status {
	a := nfs4.CreateArgs{}
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	switch a.Type {
	case nfs4.TypeDir, nfs4.TypeLnk, nfs4.TypeBlk, nfs4.TypeChr, nfs4.TypeSock, nfs4.TypeFIFO:
	default:
		return nfs4.ErrBadType
	}
	if status := x.toChange(ctx, &x.current, a.Name); status != nfs4.OK {
		if status == nfs4.ErrXDev {
			status = nfs4.ErrExist
		}
		return status
	}
	allowed := settable.Without(nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrModeSetMasked))
	allowed.Set(nfs4.AttrModeUmask)
	set, l, done, status := x.setNew(ctx, &a.Attrs, allowed, vfs.Type(a.Type))
	switch {
	case status != nfs4.OK:
		return status
	case !mayGive(x.current.use, &set):
		return nfs4.ErrPerm
	case a.Type == nfs4.TypeLnk && len(a.LinkData) == 0:
		return nfs4.ErrInval
	case a.Type == nfs4.TypeLnk && len(a.LinkData) > maxPath:
		return nfs4.ErrNameTooLong
	}
	u, p := x.current.use, realm.Place{Dir: x.current.h, Name: string(a.Name)}
	if err := u.BeforeMake(ctx, p, realm.Leaves); err != nil {
		return x.status(err)
	}
	var made vfs.Made
	var err error
	ctx = naming(ctx, u)
	switch fs := u.Export.FS; a.Type {
	case nfs4.TypeDir:
		made, err = fs.Mkdir(ctx, &u.Cred, p.Dir, p.Name, set)
	case nfs4.TypeLnk:
		made, err = fs.Symlink(ctx, &u.Cred, p.Dir, p.Name, string(a.LinkData), set)
	default:
		made, err = fs.Mknod(ctx, &u.Cred, p.Dir, p.Name, vfs.Type(a.Type), vfs.Dev(a.Dev), set)
	}
	if err != nil {
		return x.status(err)
	}
	x.current = object{use: u, h: made.Handle}
	done = x.give(ctx, &set, done)
	u.EndChange()
	done = x.giveLists(ctx, l, done)
	res := nfs4.CreateRes{Dir: changeInfo(u, &made.Dir), AttrSet: done}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// mayGive reports whether the caller may make an object that belongs to the
// user and the group in set (RFC 8881, Section 18.4.3).
func mayGive(u *use, set *vfs.SetAttr) bool {
	c := &u.Cred
	return c.UID == 0 || (set.UID == nil || *set.UID == c.UID) &&
		(set.GID == nil || *set.GID == c.GID || slices.Contains(c.Groups, *set.GID))
}

// give gives the current object, which the caller has just made, to the group
// in set: file systems do so only for the superuser. It returns the attributes
// in done that are set.
func (x *compound) give(ctx context.Context, set *vfs.SetAttr, done nfs4.Bitmap) nfs4.Bitmap {
	u := x.current.use
	if set.GID != nil && u.Cred.UID != 0 {
		if _, err := u.Export.FS.SetAttr(ctx, &u.Cred, x.current.h, vfs.SetAttr{GID: set.GID}, nil); err != nil {
			done.Clear(nfs4.AttrOwnerGroup)
		}
	}
	return done
}

// maxPath is the longest path of a symbolic link that Linux can follow, in
// bytes.
const maxPath = 4095

// remove is REMOVE (RFC 8881, Section 18.25), of files and of directories.
func remove(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.NameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.toChange(ctx, &x.current, a.Name); status != nfs4.OK {
		if status == nfs4.ErrXDev {
			status = nfs4.ErrNotEmpty // somebody's export lies there
		}
		return status
	}
	u, p := x.current.use, realm.Place{Dir: x.current.h, Name: string(a.Name)}
	if status := x.kept(ctx, u, p); status != nfs4.OK {
		return status
	}
	if err := u.BeforeUnlink(ctx, p); err != nil {
		return x.status(err)
	}
	fs := u.Export.FS
	ctx = naming(ctx, u)
	wcc, err := fs.Remove(ctx, &u.Cred, p.Dir, p.Name)
	if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.EPERM) && x.isDir(ctx, u, p) {
		wcc, err = fs.Rmdir(ctx, &u.Cred, p.Dir, p.Name)
	}
	if err != nil {
		return x.status(err)
	}
	res := nfs4.ChangeRes{Dir: changeInfo(u, &wcc)}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// kept returns the status of a change that takes a name away: NFS4ERR_FILE_OPEN
// if an open of its file denies others to write (RFC 8881, Section 18.25.4).
func (x *compound) kept(ctx context.Context, u *use, p realm.Place) nfs4.Status {
	if !x.server.state.Denying() {
		return nfs4.OK
	}
	h, _, _, err := u.Export.FS.Lookup(ctx, &u.Cred, p.Dir, p.Name)
	if err != nil {
		return nfs4.OK
	}
	key, err := x.key(&object{use: u, h: h})
	if err != nil {
		return nfs4.OK
	}
	status := x.server.state.Denied(string(key), nfs4.ShareWrite)
	if status == nfs4.ErrLocked {
		status = nfs4.ErrFileOpen
	}
	return status
}

// isDir reports whether a name is of a directory.
func (x *compound) isDir(ctx context.Context, u *use, p realm.Place) bool {
	_, attr, _, err := u.Export.FS.Lookup(ctx, &u.Cred, p.Dir, p.Name)
	return err == nil && attr.OK && attr.Type == vfs.TypeDir
}

// rename is RENAME (RFC 8881, Section 18.26): from the saved directory to the
// current one.
func rename(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.RenameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.toChange(ctx, &x.saved, a.Old); status != nfs4.OK {
		return status
	}
	if status := x.toChange(ctx, &x.current, a.New); status != nfs4.OK {
		return status
	}
	u := x.current.use
	if x.saved.use != u {
		return nfs4.ErrXDev
	}
	from := realm.Place{Dir: x.saved.h, Name: string(a.Old)}
	to := realm.Place{Dir: x.current.h, Name: string(a.New)}
	if status := x.kept(ctx, u, to); status != nfs4.OK {
		return status
	}
	if err := u.BeforeRename(ctx, from, to); err != nil {
		return x.status(err)
	}
	source, target, err := u.Export.FS.Rename(naming(ctx, u), &u.Cred, from.Dir, from.Name, to.Dir, to.Name)
	if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) {
		err = syscall.EEXIST // of incompatible types (RFC 8881, Section 18.26.3)
	}
	if err != nil {
		return x.status(err)
	}
	res := nfs4.RenameRes{Source: changeInfo(u, &source), Target: changeInfo(u, &target)}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// link is LINK (RFC 8881, Section 18.9): of the saved object into the current
// directory.
func link(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.NameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.toChange(ctx, &x.current, a.Name); status != nfs4.OK {
		if status == nfs4.ErrXDev {
			status = nfs4.ErrExist
		}
		return status
	}
	u := x.current.use
	switch {
	case x.saved.node != nil:
		return nfs4.ErrIsDir
	case x.saved.use != u:
		return nfs4.ErrXDev
	}
	attr, status := x.attr(ctx, &x.saved)
	switch {
	case status != nfs4.OK:
		return status
	case attr.Type == vfs.TypeDir:
		return nfs4.ErrIsDir
	}
	p := realm.Place{Dir: x.current.h, Name: string(a.Name)}
	if err := u.BeforeLink(ctx, x.saved.h, p); err != nil {
		return x.status(err)
	}
	_, wcc, err := u.Export.FS.Link(naming(ctx, u), &u.Cred, x.saved.h, p.Dir, p.Name)
	if err != nil {
		return x.status(err)
	}
	res := nfs4.ChangeRes{Dir: changeInfo(u, &wcc)}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// naming returns the context for a change of names in an export.
func naming(ctx context.Context, u *use) context.Context {
	if u.Options.Exclusive {
		return ctx
	}
	return vfs.WithAtomic(ctx)
}

// changeInfo returns the effect of a change on an object. It is atomic only if
// nobody but this server changes the export, or nobody else has changed the object.
func changeInfo(u *use, w *vfs.WCC) nfs4.ChangeInfo {
	c := nfs4.ChangeInfo{Atomic: (u.Options.Exclusive || w.Atomic) && w.Before.OK && w.After.OK}
	if w.After.OK {
		c.After = changeOf(&w.After.Attr)
	}
	if w.Before.OK {
		c.Before = changeAt(w.Before.HasChange, w.Before.Change, w.Before.Ctime)
	}
	return c
}

// mayChange refuses changes of the pseudo file system and of read-only exports.
func (x *compound) mayChange(o *object) nfs4.Status {
	if o.node != nil || o.use.Options.ReadOnly {
		return nfs4.ErrROFS
	}
	return nfs4.OK
}
