package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A request is one running NFS call. Requests are reused, so that passing pointers to their
// fields to a file system allocates no memory.
type request struct {
	exportset.Request
	server        *Server
	call          *oncrpc.Call
	isTooWeak     bool       // the call is denied, whatever its results are
	isUnencrypted bool       // because its transport is too weak
	dirEntry      nfs3.Entry // see toWireEntry
}

func (s *Server) beginRequest(c *oncrpc.Call, r *oncrpc.Reply) *request {
	q, _ := s.requests.Get().(*request)
	if q == nil {
		q = &request{server: s}
	}
	q.call = c
	q.Begin(s.exports, c.Peer, &c.Cred, r)
	return q
}

func (s *Server) endRequest(q *request) {
	q.End()
	q.call, q.dirEntry, q.isTooWeak, q.isUnencrypted = nil, nfs3.Entry{}, false, false
	s.requests.Put(q)
}

// checkArgs returns the error in the arguments, after decoding.
func (q *request) checkArgs() error { return q.call.Args.Done() }

// openHandle finds the object for a file handle, and the identity for the call.
func (q *request) openHandle(ctx context.Context, fh nfs3.FH) (h vfs.Handle, status nfs3.Status) {
	h, err := q.Open(ctx, fh)
	return h, q.openStatus(ctx, err)
}

// openToMount is like openHandle, but for FSINFO, and for the calls that clients send for a
// root while they mount.
func (q *request) openToMount(ctx context.Context, fh nfs3.FH) (h vfs.Handle, status nfs3.Status) {
	h, err := q.OpenToMount(ctx, fh)
	return h, q.openStatus(ctx, err)
}

// openStatus returns the status of a call whose object was looked up with the result err. RFC
// 2623, Section 2.4, leaves the reply to a call with the wrong flavor to the server: it is
// denied at the RPC level, because Linux's client then reports what is missing.
func (q *request) openStatus(ctx context.Context, err error) nfs3.Status {
	switch {
	case err == nil && q.Options.Refer.Set():
		err = exportset.Stale // NFSv3 has no referrals
	case err == nil:
		return nfs3.OK
	case exportset.IsSecurityDenial(err):
		q.isTooWeak, q.isUnencrypted = true, err == exportset.WrongTransport
	}
	return q.toStatus(err)
}

// openToChange is like openHandle, but for an object that the call will change. If the call is
// rejected, wcc holds the available attributes.
func (q *request) openToChange(ctx context.Context, fh nfs3.FH) (h vfs.Handle, wcc nfs3.WccData, status nfs3.Status) {
	h, status = q.openHandle(ctx, fh)
	if status == nfs3.OK && q.Options.ReadOnly {
		return h, q.unchangedWcc(ctx, h), nfs3.ErrROFS
	}
	return h, nfs3.WccData{}, status
}

// openName is like openToChange, but for a directory in which the call will change a name.
func (q *request) openName(ctx context.Context, a *nfs3.DirOpArgs, dots dotStatuses) (dir vfs.Handle, wcc nfs3.WccData, status nfs3.Status) {
	dir, wcc, status = q.openToChange(ctx, a.Dir)
	if status != nfs3.OK {
		return dir, wcc, status
	}
	if status = dots.checkName(a.Name); status != nfs3.OK {
		wcc = q.unchangedWcc(ctx, dir)
	}
	return dir, wcc, status
}

// fetchPostOpAttr returns h's attributes, if available, for the results of a procedure that
// fails before it calls the file system.
func (q *request) fetchPostOpAttr(ctx context.Context, h vfs.Handle) nfs3.PostOpAttr {
	a, err := q.Export.FS.GetAttr(ctx, &q.Cred, h)
	if err != nil || q.HasOtherWriter(h) {
		return nfs3.PostOpAttr{}
	}
	return nfs3.PostOpAttr{OK: true, Attr: toWireAttr(&a)}
}

// postAttr returns the wire form of h's attributes, or none if another client may change the
// object in its cache: this call's client can send GETATTR for them.
func (q *request) postAttr(h *vfs.Handle, a *vfs.MaybeAttr) nfs3.PostOpAttr {
	if q.HasOtherWriter(*h) {
		return nfs3.PostOpAttr{}
	}
	return toPostOpAttr(a)
}

// unchangedWcc returns h's attributes, if available, as wcc_data without a change.
func (q *request) unchangedWcc(ctx context.Context, h vfs.Handle) nfs3.WccData {
	return nfs3.WccData{After: q.fetchPostOpAttr(ctx, h)}
}

// wireHandle returns h's file handle, which is valid until the next call.
func (q *request) wireHandle(h *vfs.Handle) nfs3.FH { return q.Handle(h) }

// toStatus returns the status for a denial or a file system error, and logs the error if NFS
// has no status for it.
func (q *request) toStatus(err error) nfs3.Status {
	if err == nil {
		return nfs3.OK
	}
	q.LogFault(err)
	status, known := statusOf(err)
	if !known {
		q.server.exports.Log().Warn("file system error without an NFS status; replying NFS3ERR_IO",
			"export", q.Export.Path, "proc", q.procName(), "err", err)
	}
	return status
}

func (q *request) procName() string {
	switch q.call.Prog {
	case nfsacl.Program:
		return nfsacl.ProcName(q.call.Proc)
	case delegation.Program:
		return delegation.ProcName(q.call.Proc)
	}
	return nfs3.ProcName(q.call.Proc)
}
