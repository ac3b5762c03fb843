package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// remove is REMOVE (RFC 1813, Section 3.3.12).
func remove(ctx context.Context, q *request, r *oncrpc.Reply) error {
	return q.unlink(ctx, r, dotsRemove, vfs.FS.Remove)
}

// rmdir is RMDIR (RFC 1813, Section 3.3.13).
func rmdir(ctx context.Context, q *request, r *oncrpc.Reply) error {
	return q.unlink(ctx, r, dotsRmdir, vfs.FS.Rmdir)
}

func (q *request) unlink(ctx context.Context, r *oncrpc.Reply, dots dotNames,
	op func(vfs.FS, context.Context, *vfs.Cred, vfs.Handle, string) (vfs.WCC, error),
) error {
	var a nfs3.DirOpArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	var res nfs3.WccRes
	var dir vfs.Handle
	dir, res.Wcc, res.Status = q.openName(ctx, &a, dots)
	if res.Status == nfs3.OK {
		name := string(a.Name)
		if res.Status = q.status(q.BeforeUnlink(ctx, realm.Place{Dir: dir, Name: name})); res.Status == nfs3.OK {
			wcc, err := op(q.Export.FS, ctx, &q.Cred, dir, name)
			res = nfs3.WccRes{Status: q.status(err), Wcc: wireWcc(&wcc)}
		}
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

// rename is RENAME (RFC 1813, Section 3.3.14). If an existing object prevents
// the rename, the host's own error, EISDIR, ENOTDIR or ENOTEMPTY, is kept, as
// in knfsd. That section would call all of them NFS3ERR_EXIST, but it lists
// them too, and programs on the client distinguish them.
func rename(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.RenameArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	var res nfs3.RenameRes
	var from, to vfs.Handle
	if from, res.FromDir, res.Status = q.openName(ctx, &a.From, dotsRename); res.Status == nfs3.OK {
		to, res.ToDir, res.Status = q.openName(ctx, &a.To, dotsRename)
		if res.Status != nfs3.OK {
			res.FromDir = q.unchanged(ctx, from)
		} else {
			res = q.rename(ctx, realm.Place{Dir: from, Name: string(a.From.Name)}, realm.Place{Dir: to, Name: string(a.To.Name)})
		}
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) rename(ctx context.Context, from, to realm.Place) nfs3.RenameRes {
	if status := q.status(q.BeforeRename(ctx, from, to)); status != nfs3.OK {
		return nfs3.RenameRes{Status: status}
	}
	fromWcc, toWcc, err := q.Export.FS.Rename(ctx, &q.Cred, from.Dir, from.Name, to.Dir, to.Name)
	return nfs3.RenameRes{Status: q.status(err), FromDir: wireWcc(&fromWcc), ToDir: wireWcc(&toWcc)}
}

// link is LINK (RFC 1813, Section 3.3.15).
func link(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.LinkArgs
	a.Decode(&q.call.Args)
	if err := q.args(); err != nil {
		return err
	}
	var res nfs3.LinkRes
	var dir vfs.Handle
	file, status := q.open(ctx, a.File)
	if res.Status = status; status == nfs3.OK {
		dir, res.Dir, res.Status = q.openName(ctx, &a.Link, dotsRename)
		if res.Status != nfs3.OK {
			res.Attr = q.attr(ctx, file)
		} else {
			res = q.link(ctx, file, realm.Place{Dir: dir, Name: string(a.Link.Name)})
		}
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) link(ctx context.Context, file vfs.Handle, to realm.Place) nfs3.LinkRes {
	if status := q.status(q.BeforeLink(ctx, file, to)); status != nfs3.OK {
		return nfs3.LinkRes{Status: status}
	}
	attr, wcc, err := q.Export.FS.Link(ctx, &q.Cred, file, to.Dir, to.Name)
	return nfs3.LinkRes{Status: q.status(err), Attr: wirePostAttr(&attr), Dir: wireWcc(&wcc)}
}
