package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// serveGetAttr implements GETATTR (RFC 1813, Section 3.3.1).
func serveGetAttr(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.HandleArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res nfs3.GetAttrRes
	h, status := q.openToMount(ctx, a.Object)
	if res.Status = status; status == nfs3.OK {
		attr, err := q.GetAttr(ctx, h)
		res.Status, res.Attr = q.toStatus(err), toWireAttr(&attr)
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

// serveSetAttr implements SETATTR (RFC 1813, Section 3.3.2).
func serveSetAttr(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.SetAttrArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res nfs3.WccRes
	var h vfs.Handle
	if h, res.Wcc, res.Status = q.openToChange(ctx, a.Object); res.Status == nfs3.OK {
		res.Wcc, res.Status = q.applyAttr(ctx, h, &a)
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) applyAttr(ctx context.Context, h vfs.Handle, a *nfs3.SetAttrArgs) (nfs3.WccData, nfs3.Status) {
	set, status := toSetAttr(&a.Attr)
	if status != nfs3.OK {
		return q.unchangedWcc(ctx, h), status
	}
	if status := q.toStatus(q.BeforeSetAttr(ctx, h, &set)); status != nfs3.OK {
		return nfs3.WccData{}, status
	}
	var guard *vfs.Time
	if a.Check {
		t := toHostTime(a.Guard)
		guard = &t
	}
	wcc, err := q.Export.FS.SetAttr(ctx, &q.Cred, h, set, guard)
	return toWccData(&wcc), q.toStatus(err)
}

// serveLookup implements LOOKUP (RFC 1813, Section 3.3.3).
func serveLookup(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.DirOpArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res nfs3.LookupRes
	dir, status := q.openHandle(ctx, a.Dir)
	if res.Status = status; status == nfs3.OK {
		name := string(a.Name)
		if res.Status = dotsFound.checkName(a.Name); res.Status != nfs3.OK {
			res.DirAttr = q.fetchPostOpAttr(ctx, dir)
		} else if e := q.FindCrossing(ctx, dir, a.Name); e != nil {
			res = q.lookupAcross(ctx, dir, name, e)
		} else {
			h, obj, dirAttr, err := q.Export.FS.Lookup(ctx, &q.Cred, dir, name)
			res.Status, res.Object = q.toStatus(err), q.wireHandle(&h)
			res.ObjAttr, res.DirAttr = q.postAttr(&h, &obj), toPostOpAttr(&dirAttr)
		}
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

// lookupAcross executes a LOOKUP whose name leads to an object in another export.
func (q *request) lookupAcross(ctx context.Context, dir vfs.Handle, name string, e *exportset.Exported) nfs3.LookupRes {
	res := nfs3.LookupRes{DirAttr: q.fetchPostOpAttr(ctx, dir)}
	h, attr, err := q.LookupAcross(ctx, e, name)
	res.Status, res.ObjAttr = q.toStatus(err), toPostOpAttr(&attr)
	res.Object = q.server.exports.AppendHandle(nil, e, &h)
	return res
}

// accessToChange are the rights that no caller has on a read-only export, except to special
// objects: writes to those do not reach the server.
const accessToChange = vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete

// isSpecial reports whether an object refers to something on the client itself.
func isSpecial(t vfs.Type) bool {
	switch t {
	case vfs.TypeBlk, vfs.TypeChr, vfs.TypeSock, vfs.TypeFIFO:
		return true
	}
	return false
}

// accessAll are the rights that RFC 1813 defines.
const accessAll = accessToChange | vfs.AccessRead | vfs.AccessLookup | vfs.AccessExecute

// serveAccess implements ACCESS (RFC 1813, Section 3.3.4).
func serveAccess(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.AccessArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res nfs3.AccessRes
	h, status := q.openHandle(ctx, a.Object)
	if res.Status = status; status == nfs3.OK {
		mask := a.Access & accessAll
		rights, attr, err := q.Export.FS.Access(ctx, &q.Cred, h, mask)
		if q.Options.ReadOnly && !(attr.OK && isSpecial(attr.Type)) {
			mask &^= accessToChange
		}
		res = nfs3.AccessRes{Status: q.toStatus(err), Attr: q.postAttr(&h, &attr), Access: rights & mask}
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

// serveReadLink implements READLINK (RFC 1813, Section 3.3.5). The path is the reply's data
// item (R8267-4-1).
func serveReadLink(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfs3.HandleArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res nfs3.ReadLinkRes
	h, status := q.openHandle(ctx, a.Object)
	if res.Status = status; status == nfs3.OK {
		path, attr, err := q.Export.FS.ReadLink(ctx, &q.Cred, h)
		res.Status, res.Attr = q.toStatus(err), toPostOpAttr(&attr)
		if err == nil {
			res.Path = r.NewItem(len(path))
			copy(res.Path, path)
		}
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}
