package nfs4server

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// checkNameChange checks that a name in the directory o may be changed.
func (x *compound) checkNameChange(ctx context.Context, o *object, name []byte) nfs4.Status {
	if status := x.checkDirectory(ctx, o); status != nfs4.OK {
		if status == nfs4.ErrSymlink {
			status = nfs4.ErrNotDir
		}
		return status
	}
	if status := x.checkName(name); status != nfs4.OK {
		return status
	}
	if status := x.checkWritable(o); status != nfs4.OK {
		return status
	}
	if x.findJunction(ctx, o, string(name)) != nil {
		return nfs4.ErrXDev // the name leads to another export
	}
	return nfs4.OK
}

// serveCreate implements CREATE (RFC 8881, Section 18.4).
func serveCreate(ctx context.Context, x *compound) nfs4.Status {
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
	if status := x.checkNameChange(ctx, &x.current, a.Name); status != nfs4.OK {
		if status == nfs4.ErrXDev {
			status = nfs4.ErrExist
		}
		return status
	}
	allowed := settableAttrs.Without(nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrModeSetMasked))
	allowed.Set(nfs4.AttrModeUmask)
	set, l, done, status := x.newObjectAttrs(ctx, &a.Attrs, allowed, vfs.Type(a.Type))
	switch {
	case status != nfs4.OK:
		return status
	case !mayGiveAway(x.current.use, &set):
		return nfs4.ErrPerm
	case a.Type == nfs4.TypeLnk && len(a.LinkData) == 0:
		return nfs4.ErrInval
	case a.Type == nfs4.TypeLnk && len(a.LinkData) > maxPath:
		return nfs4.ErrNameTooLong
	}
	u, p := x.current.use, exportset.Place{Dir: x.current.h, Name: string(a.Name)}
	if err := u.BeforeMake(ctx, p, exportset.KeepObject); err != nil {
		return x.toStatus(err)
	}
	var made vfs.Made
	var err error
	ctx = withAtomicChange(ctx, u)
	switch fs := u.Export.FS; a.Type {
	case nfs4.TypeDir:
		made, err = fs.Mkdir(ctx, &u.Cred, p.Dir, p.Name, set)
	case nfs4.TypeLnk:
		made, err = fs.Symlink(ctx, &u.Cred, p.Dir, p.Name, string(a.LinkData), set)
	default:
		made, err = fs.Mknod(ctx, &u.Cred, p.Dir, p.Name, vfs.Type(a.Type), vfs.Dev(a.Dev), set)
	}
	if err != nil {
		return x.toStatus(err)
	}
	x.current = object{use: u, h: made.Handle}
	done = x.setInitialGroup(ctx, &set, done)
	u.EndChange()
	done = x.setInitialACLs(ctx, l, done)
	res := nfs4.CreateRes{Dir: changeInfo(u, &made.Dir), AttrSet: done}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// mayGiveAway reports whether the caller may create an object that belongs to the user and the
// group in set (RFC 8881, Section 18.4.3).
func mayGiveAway(u *exportUse, set *vfs.SetAttr) bool {
	c := &u.Cred
	return c.UID == 0 || (set.UID == nil || *set.UID == c.UID) &&
		(set.GID == nil || *set.GID == c.GID || slices.Contains(c.Groups, *set.GID))
}

// setInitialGroup gives the current object, which the caller has just created, to the group in
// set: file systems do that only for the superuser. It returns the attributes in done that are
// set.
func (x *compound) setInitialGroup(ctx context.Context, set *vfs.SetAttr, done nfs4.Bitmap) nfs4.Bitmap {
	u := x.current.use
	if set.GID != nil && u.Cred.UID != 0 {
		if _, err := u.Export.FS.SetAttr(ctx, &u.Cred, x.current.h, vfs.SetAttr{GID: set.GID}, nil); err != nil {
			done.Clear(nfs4.AttrOwnerGroup)
		}
	}
	return done
}

// maxPath is the maximum length in bytes of a symbolic link's path that Linux can follow.
const maxPath = 4095

// serveRemove implements REMOVE (RFC 8881, Section 18.25), for files and directories.
func serveRemove(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.NameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.checkNameChange(ctx, &x.current, a.Name); status != nfs4.OK {
		if status == nfs4.ErrXDev {
			status = nfs4.ErrNotEmpty // another export lies there
		}
		return status
	}
	u, p := x.current.use, exportset.Place{Dir: x.current.h, Name: string(a.Name)}
	if status := x.checkShareDeny(ctx, u, p, nil); status != nfs4.OK {
		return status
	}
	if err := u.BeforeUnlink(ctx, p); err != nil {
		return x.toStatus(err)
	}
	fs := u.Export.FS
	ctx = withAtomicChange(ctx, u)
	wcc, err := fs.Remove(ctx, &u.Cred, p.Dir, p.Name)
	if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.EPERM) && x.isDirectory(ctx, u, p) {
		wcc, err = fs.Rmdir(ctx, &u.Cred, p.Dir, p.Name)
	}
	if err != nil {
		return x.toStatus(err)
	}
	res := nfs4.ChangeRes{Dir: changeInfo(u, &wcc)}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// checkShareDeny returns NFS4ERR_FILE_OPEN if a change would remove a file's name while an open
// of the file denies writing (RFC 8881, Section 18.25.4). For RENAME, the object at from gets
// the name; for REMOVE, from is nil. If that object cannot replace the file, or is the file,
// RENAME removes no name.
func (x *compound) checkShareDeny(ctx context.Context, u *exportUse, p exportset.Place, from *exportset.Place) nfs4.Status {
	if !x.server.state.HasDenyModes() {
		return nfs4.OK
	}
	h, _, _, err := u.Export.FS.Lookup(ctx, &u.Cred, p.Dir, p.Name)
	if err != nil {
		return nfs4.OK
	}
	if from != nil {
		old, attr, _, err := u.Export.FS.Lookup(ctx, &u.Cred, from.Dir, from.Name)
		if err != nil || old == h || attr.OK && attr.Type == vfs.TypeDir { // only files can be open
			return nfs4.OK
		}
	}
	key, err := x.objectKey(&object{use: u, h: h})
	if err != nil {
		return nfs4.OK
	}
	status := x.server.state.Denied(string(key), nfs4.ShareWrite)
	if status == nfs4.ErrLocked {
		status = nfs4.ErrFileOpen
	}
	return status
}

// isDirectory reports whether a name refers to a directory.
func (x *compound) isDirectory(ctx context.Context, u *exportUse, p exportset.Place) bool {
	_, attr, _, err := u.Export.FS.Lookup(ctx, &u.Cred, p.Dir, p.Name)
	return err == nil && attr.OK && attr.Type == vfs.TypeDir
}

// serveRename implements RENAME (RFC 8881, Section 18.26) from the saved directory to the
// current one.
func serveRename(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.RenameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.checkNameChange(ctx, &x.saved, a.Old); status != nfs4.OK {
		return status
	}
	if status := x.checkNameChange(ctx, &x.current, a.New); status != nfs4.OK {
		return status
	}
	u := x.current.use
	if x.saved.use != u {
		return nfs4.ErrXDev
	}
	from := exportset.Place{Dir: x.saved.h, Name: string(a.Old)}
	to := exportset.Place{Dir: x.current.h, Name: string(a.New)}
	if status := x.checkShareDeny(ctx, u, to, &from); status != nfs4.OK {
		return status
	}
	if err := u.BeforeRename(ctx, from, to); err != nil {
		return x.toStatus(err)
	}
	source, target, err := u.Export.FS.Rename(withAtomicChange(ctx, u), &u.Cred, from.Dir, from.Name, to.Dir, to.Name)
	if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) {
		err = syscall.EEXIST // the types are incompatible (RFC 8881, Section 18.26.3)
	}
	if err != nil {
		return x.toStatus(err)
	}
	res := nfs4.RenameRes{Source: changeInfo(u, &source), Target: changeInfo(u, &target)}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// serveLink implements LINK (RFC 8881, Section 18.9), from the saved object into the current
// directory.
func serveLink(ctx context.Context, x *compound) nfs4.Status {
	var a nfs4.NameArgs
	a.Decode(x.args)
	if x.args.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := x.checkNameChange(ctx, &x.current, a.Name); status != nfs4.OK {
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
	attr, status := x.getAttr(ctx, &x.saved)
	switch {
	case status != nfs4.OK:
		return status
	case attr.Type == vfs.TypeDir:
		return nfs4.ErrIsDir
	}
	p := exportset.Place{Dir: x.current.h, Name: string(a.Name)}
	if err := u.BeforeLink(ctx, x.saved.h, p); err != nil {
		return x.toStatus(err)
	}
	_, wcc, err := u.Export.FS.Link(withAtomicChange(ctx, u), &u.Cred, x.saved.h, p.Dir, p.Name)
	if err != nil {
		return x.toStatus(err)
	}
	res := nfs4.ChangeRes{Dir: changeInfo(u, &wcc)}
	x.out = res.AppendTo(x.out)
	return nfs4.OK
}

// withAtomicChange returns the context for changing names in an export.
func withAtomicChange(ctx context.Context, u *exportUse) context.Context {
	if u.Options.Exclusive {
		return ctx
	}
	return vfs.WithAtomic(ctx)
}

// changeInfo returns the effect of a change on an object. It is atomic only if no other program
// changes the export, or none has changed the object.
func changeInfo(u *exportUse, w *vfs.WCC) nfs4.ChangeInfo {
	c := nfs4.ChangeInfo{Atomic: (u.Options.Exclusive || w.Atomic) && w.Before.OK && w.After.OK}
	if w.After.OK {
		c.After = changeAttr(&w.After.Attr)
	}
	if w.Before.OK {
		c.Before = changeOrCtime(w.Before.HasChange, w.Before.Change, w.Before.Ctime)
	}
	return c
}

// checkWritable rejects changes in the pseudo file system and in read-only exports.
func (x *compound) checkWritable(o *object) nfs4.Status {
	if o.node != nil || o.use.Options.ReadOnly {
		return nfs4.ErrROFS
	}
	return nfs4.OK
}
