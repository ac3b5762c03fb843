package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A makeFunc creates an object under a name in dir.
type makeFunc func(dir vfs.Handle, name string) (vfs.Made, error)

// serveCreate implements CREATE (RFC 1813, Section 3.3.8).
func serveCreate(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.CreateArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	set, status := toSetAttr(&a.Attr)
	how := vfs.CreateHow{Mode: vfs.CreateMode(a.Mode), Attr: set, Verifier: a.Verf}
	to := exportset.KeepObject
	if how.Mode == vfs.Unchecked && set.Size != nil {
		to = exportset.TruncateFile
	}
	return q.serveMake(ctx, r, &a.Where, status, to, func(dir vfs.Handle, name string) (vfs.Made, error) {
		return q.Export.FS.Create(ctx, &q.Cred, dir, name, how)
	})
}

// serveMkdir implements MKDIR (RFC 1813, Section 3.3.9).
func serveMkdir(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.MkdirArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	set, status := toSetAttr(&a.Attr)
	return q.serveMake(ctx, r, &a.Where, status, exportset.KeepObject, func(dir vfs.Handle, name string) (vfs.Made, error) {
		return q.Export.FS.Mkdir(ctx, &q.Cred, dir, name, set)
	})
}

// serveSymlink implements SYMLINK (RFC 1813, Section 3.3.10).
func serveSymlink(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.SymlinkArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	set, status := toSetAttr(&a.Attr)
	if len(a.Path) > nfs3.MaxPath {
		status = nfs3.ErrNameTooLong
	}
	return q.serveMake(ctx, r, &a.Where, status, exportset.KeepObject, func(dir vfs.Handle, name string) (vfs.Made, error) {
		return q.Export.FS.Symlink(ctx, &q.Cred, dir, name, string(a.Path), set)
	})
}

// serveMknod implements MKNOD (RFC 1813, Section 3.3.11).
func serveMknod(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.MknodArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	set, status := toSetAttr(&a.Attr)
	switch a.Type {
	case nfs3.TypeChr, nfs3.TypeBlk, nfs3.TypeSock, nfs3.TypeFIFO:
	default:
		status = nfs3.ErrBadType
	}
	dev := vfs.Dev{Major: a.Spec.Major, Minor: a.Spec.Minor}
	return q.serveMake(ctx, r, &a.Where, status, exportset.KeepObject, func(dir vfs.Handle, name string) (vfs.Made, error) {
		return q.Export.FS.Mknod(ctx, &q.Cred, dir, name, vfs.Type(a.Type), dev, set)
	})
}

// serveMake is the common part of CREATE, MKDIR, SYMLINK and MKNOD. status is the result of
// checking the other arguments; to is the procedure's effect on an existing object.
func (q *request) serveMake(ctx context.Context, r *oncrpc.Reply, where *nfs3.DirOpArgs, status nfs3.Status, to exportset.CreateEffect, mk makeFunc) error {
	var res nfs3.MakeRes
	var dir vfs.Handle
	dir, res.Dir, res.Status = q.openName(ctx, where, dotsExist)
	switch {
	case res.Status != nfs3.OK:
	case status != nfs3.OK:
		res.Status, res.Dir = status, q.unchangedWcc(ctx, dir)
	default:
		q.createObject(ctx, exportset.Place{Dir: dir, Name: string(where.Name)}, to, mk, &res)
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) createObject(ctx context.Context, p exportset.Place, to exportset.CreateEffect, mk makeFunc, res *nfs3.MakeRes) {
	if res.Status = q.toStatus(q.BeforeMake(ctx, p, to)); res.Status != nfs3.OK {
		return
	}
	made, err := mk(p.Dir, p.Name)
	*res = nfs3.MakeRes{
		Status: q.toStatus(err),
		Object: q.wireHandle(&made.Handle),
		Attr:   q.postAttr(&made.Handle, &made.Attr), // the object may have existed before
		Dir:    toWccData(&made.Dir),
	}
}
