package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A maker makes an object under a name in dir.
type maker func(dir vfs.Handle, name string) (vfs.Made, error)

// create is CREATE (RFC 1813, Section 3.3.8).
func create(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.CreateArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	set, status := hostSetAttr(&a.Attr)
	how := vfs.CreateHow{Mode: vfs.CreateMode(a.Mode), Attr: set, Verifier: a.Verf}
	to := realm.Leaves
	if how.Mode == vfs.Unchecked && set.Size != nil {
		to = realm.Cuts
	}
	return q.makeObject(ctx, r, &a.Where, status, to, func(dir vfs.Handle, name string) (vfs.Made, error) {
		return q.Export.FS.Create(ctx, &q.Cred, dir, name, how)
	})
}

// mkdir is MKDIR (RFC 1813, Section 3.3.9).
func mkdir(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.MkdirArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	set, status := hostSetAttr(&a.Attr)
	return q.makeObject(ctx, r, &a.Where, status, realm.Leaves, func(dir vfs.Handle, name string) (vfs.Made, error) {
		return q.Export.FS.Mkdir(ctx, &q.Cred, dir, name, set)
	})
}

// symlink is SYMLINK (RFC 1813, Section 3.3.10).
func symlink(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.SymlinkArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	set, status := hostSetAttr(&a.Attr)
	if len(a.Path) > nfs3.MaxPath {
		status = nfs3.ErrNameTooLong
	}
	return q.makeObject(ctx, r, &a.Where, status, realm.Leaves, func(dir vfs.Handle, name string) (vfs.Made, error) {
		return q.Export.FS.Symlink(ctx, &q.Cred, dir, name, string(a.Path), set)
	})
}

// mknod is MKNOD (RFC 1813, Section 3.3.11).
func mknod(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.MknodArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	set, status := hostSetAttr(&a.Attr)
	switch a.Type {
	case nfs3.TypeChr, nfs3.TypeBlk, nfs3.TypeSock, nfs3.TypeFIFO:
	default:
		status = nfs3.ErrBadType
	}
	dev := vfs.Dev{Major: a.Spec.Major, Minor: a.Spec.Minor}
	return q.makeObject(ctx, r, &a.Where, status, realm.Leaves, func(dir vfs.Handle, name string) (vfs.Made, error) {
		return q.Export.FS.Mknod(ctx, &q.Cred, dir, name, vfs.Type(a.Type), dev, set)
	})
}

// makeObject is the common part of CREATE, MKDIR, SYMLINK and MKNOD. status is
// the verdict on the other arguments; to says what the procedure does to an
// existing object.
func (q *request) makeObject(ctx context.Context, r *oncrpc.Reply, where *nfs3.DirOpArgs, status nfs3.Status, to realm.Taken, mk maker) error {
	var res nfs3.MakeRes
	var dir vfs.Handle
	dir, res.Dir, res.Status = q.openName(ctx, where, dotsExist)
	switch {
	case res.Status != nfs3.OK:
	case status != nfs3.OK:
		res.Status, res.Dir = status, q.unchanged(ctx, dir)
	default:
		q.make(ctx, realm.Place{Dir: dir, Name: string(where.Name)}, to, mk, &res)
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) make(ctx context.Context, p realm.Place, to realm.Taken, mk maker, res *nfs3.MakeRes) {
	if res.Status = q.status(q.BeforeMake(ctx, p, to)); res.Status != nfs3.OK {
		return
	}
	made, err := mk(p.Dir, p.Name)
	*res = nfs3.MakeRes{
		Status: q.status(err),
		Object: q.handle(&made.Handle),
		Attr:   q.postAttr(&made.Handle, &made.Attr), // the object may have been there
		Dir:    wireWcc(&made.Dir),
	}
}
