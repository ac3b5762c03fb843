package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// serveRemove implements REMOVE (RFC 1813, Section 3.3.12).
func serveRemove(ctx context.Context, q *request, r *oncrpc.Reply) error {
	return q.serveUnlink(ctx, r, dotsRemove, vfs.FS.Remove)
}

// serveRmdir implements RMDIR (RFC 1813, Section 3.3.13).
func serveRmdir(ctx context.Context, q *request, r *oncrpc.Reply) error {
	return q.serveUnlink(ctx, r, dotsRmdir, vfs.FS.Rmdir)
}

func (q *request) serveUnlink(ctx context.Context, r *oncrpc.Reply, dots dotStatuses,
	op func(vfs.FS, context.Context, *vfs.Cred, vfs.Handle, string) (vfs.WCC, error),
) error {
	var a nfs3.DirOpArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res nfs3.WccRes
	var dir vfs.Handle
	dir, res.Wcc, res.Status = q.openName(ctx, &a, dots)
	if res.Status == nfs3.OK {
		name := string(a.Name)
		if res.Status = q.toStatus(q.BeforeUnlink(ctx, exportset.Place{Dir: dir, Name: name})); res.Status == nfs3.OK {
			wcc, err := op(q.Export.FS, ctx, &q.Cred, dir, name)
			res = nfs3.WccRes{Status: q.toStatus(err), Wcc: toWccData(&wcc)}
		}
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

// serveRename implements RENAME (RFC 1813, Section 3.3.14). If an existing object prevents the
// rename, it returns the host's own error, EISDIR, ENOTDIR or ENOTEMPTY, as knfsd does. That
// section would call all of them NFS3ERR_EXIST, but it lists them too, and programs on the
// client distinguish them.
func serveRename(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.RenameArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res nfs3.RenameRes
	var from, to vfs.Handle
	if from, res.FromDir, res.Status = q.openName(ctx, &a.From, dotsRename); res.Status == nfs3.OK {
		to, res.ToDir, res.Status = q.openName(ctx, &a.To, dotsRename)
		if res.Status != nfs3.OK {
			res.FromDir = q.unchangedWcc(ctx, from)
		} else {
			res = q.renameObject(ctx, exportset.Place{Dir: from, Name: string(a.From.Name)}, exportset.Place{Dir: to, Name: string(a.To.Name)})
		}
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) renameObject(ctx context.Context, from, to exportset.Place) nfs3.RenameRes {
	if status := q.toStatus(q.BeforeRename(ctx, from, to)); status != nfs3.OK {
		return nfs3.RenameRes{Status: status}
	}
	fromWcc, toWcc, err := q.Export.FS.Rename(ctx, &q.Cred, from.Dir, from.Name, to.Dir, to.Name)
	return nfs3.RenameRes{Status: q.toStatus(err), FromDir: toWccData(&fromWcc), ToDir: toWccData(&toWcc)}
}

// serveLink implements LINK (RFC 1813, Section 3.3.15).
func serveLink(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.LinkArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res nfs3.LinkRes
	var dir vfs.Handle
	file, status := q.openHandle(ctx, a.File)
	if res.Status = status; status == nfs3.OK {
		dir, res.Dir, res.Status = q.openName(ctx, &a.Link, dotsRename)
		if res.Status != nfs3.OK {
			res.Attr = q.fetchPostOpAttr(ctx, file)
		} else {
			res = q.linkObject(ctx, file, exportset.Place{Dir: dir, Name: string(a.Link.Name)})
		}
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) linkObject(ctx context.Context, file vfs.Handle, to exportset.Place) nfs3.LinkRes {
	if status := q.toStatus(q.BeforeLink(ctx, file, to)); status != nfs3.OK {
		return nfs3.LinkRes{Status: status}
	}
	attr, wcc, err := q.Export.FS.Link(ctx, &q.Cred, file, to.Dir, to.Name)
	return nfs3.LinkRes{Status: q.toStatus(err), Attr: toPostOpAttr(&attr), Dir: toWccData(&wcc)}
}
