package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// An aclProgram serves NFSACL version 3.
type aclProgram struct{ *Server }

// aclProcedures has no NULL, because the RPC layer replies to it.
var aclProcedures = [nfsacl.NumProc]procedure{
	nfsacl.ProcGetACL: serveGetACL,
	nfsacl.ProcSetACL: serveSetACL,
}

// ServeRPC serves one NFSACL call.
func (p aclProgram) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Proc >= nfsacl.NumProc || aclProcedures[c.Proc] == nil {
		return oncrpc.ErrProcUnavail
	}
	return p.serveProcedure(ctx, c, r, aclProcedures[c.Proc])
}

// serveGetACL implements GETACL. As in knfsd, an object without a list gets the list equivalent
// to its mode, even if its file system has no lists: after an error, Linux's client would send
// GETACL again for each object.
func serveGetACL(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfsacl.GetACLArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	r.Reserve(min(q.call.MaxReply, nfsacl.MaxResult(nfsacl.ProcGetACL)))
	var res nfsacl.GetACLRes
	h, status := q.openHandle(ctx, a.Object)
	switch {
	case status != nfs3.OK:
		res.Status = status
	case a.Mask&^nfsacl.MaskAll != 0:
		res.Status, res.Attr = nfs3.ErrInval, q.fetchPostOpAttr(ctx, h)
	default:
		q.fillACL(ctx, h, &res)
		res.Mask = a.Mask
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) fillACL(ctx context.Context, h vfs.Handle, res *nfsacl.GetACLRes) {
	var access, def vfs.ACL
	var attr vfs.MaybeAttr
	var err error
	if lists := q.Export.ACLs; lists != nil {
		access, def, attr, err = lists.GetACL(ctx, &q.Cred, h)
	} else if attr.Attr, err = q.Export.FS.GetAttr(ctx, &q.Cred, h); err == nil {
		attr.OK = true
	}
	if access == nil {
		access = vfs.ModeACL(attr.Mode)
	}
	res.Status, res.Attr = q.toStatus(err), q.postAttr(&h, &attr)
	if max(len(access), len(def)) > nfsacl.MaxEntries {
		res.Status = nfs3.ErrServerFault // no status fits; knfsd does not reply at all
	}
	res.Access, res.Default = toWireACL(access), toWireACL(def)
}

// serveSetACL implements SETACL.
func serveSetACL(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a nfsacl.SetACLArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	h, wcc, status := q.openToChange(ctx, a.Object)
	res := nfsacl.SetACLRes{Status: status, Attr: wcc.After}
	if status == nfs3.OK {
		res.Attr, res.Status = q.applyACL(ctx, h, &a)
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

func (q *request) applyACL(ctx context.Context, h vfs.Handle, a *nfsacl.SetACLArgs) (nfs3.PostOpAttr, nfs3.Status) {
	if a.Mask&^nfsacl.MaskAll != 0 {
		return q.fetchPostOpAttr(ctx, h), nfs3.ErrInval
	}
	if err := q.Export.TriggerAutomount(); err != nil {
		return nfs3.PostOpAttr{}, q.toStatus(err)
	}
	lists := q.Export.ACLs
	if lists == nil {
		return q.fetchPostOpAttr(ctx, h), nfs3.ErrNotSupp
	}
	if status := q.toStatus(q.BeforeSetACL(ctx, h)); status != nfs3.OK {
		return nfs3.PostOpAttr{}, status
	}
	access := toHostACL(a.Access, a.Mask&nfsacl.MaskAccess != 0)
	def := toHostACL(a.Default, a.Mask&nfsacl.MaskDefault != 0)
	attr, err := lists.SetACL(ctx, &q.Cred, h, access, def)
	return toPostOpAttr(&attr), q.toStatus(err)
}

func toWireACL(a vfs.ACL) nfsacl.ACL {
	if a == nil {
		return nil
	}
	out := make(nfsacl.ACL, len(a))
	for i, e := range a {
		out[i] = nfsacl.Entry{Tag: nfsacl.Tag(e.Tag), ID: e.ID, Perm: uint32(e.Perm)}
	}
	return out
}

// toHostACL returns the list to set, or nil if the mask does not include it.
func toHostACL(a nfsacl.ACL, meant bool) *vfs.ACL {
	if !meant {
		return nil
	}
	out := make(vfs.ACL, len(a))
	for i, e := range a {
		out[i] = vfs.ACLEntry{Tag: vfs.ACLTag(e.Tag), ID: e.ID, Perm: uint8(e.Perm)}
	}
	return &out
}
