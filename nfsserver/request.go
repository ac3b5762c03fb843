package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A request is one running NFS call. Requests are reused, so that passing parts
// of them to a file system by pointer costs no allocation.
type request struct {
	realm.Request
	server   *Server
	call     *oncrpc.Call
	tooWeak  bool       // the call is denied, whatever its results are
	unsafe   bool       // because of its transport
	dirEntry nfs3.Entry // see entry
}

func (s *Server) begin(c *oncrpc.Call, r *oncrpc.Reply) *request {
	q, _ := s.requests.Get().(*request)
	if q == nil {
		q = &request{server: s}
	}
	q.call = c
	q.Begin(s.realm, c.Peer, &c.Cred, r)
	return q
}

func (s *Server) end(q *request) {
	q.End()
	q.call, q.dirEntry, q.tooWeak, q.unsafe = nil, nfs3.Entry{}, false, false
	s.requests.Put(q)
}

// args returns the error in the arguments, after decoding.
func (q *request) args() error { return q.call.Args.Done() }

// open finds the object of a file handle, and the identity for the call.
func (q *request) open(ctx context.Context, fh nfs3.FH) (h vfs.Handle, status nfs3.Status) {
	h, err := q.Open(ctx, fh)
	return h, q.opened(ctx, err)
}

// openToMount is open for FSINFO, and for the calls that clients make for a root
// while they mount.
func (q *request) openToMount(ctx context.Context, fh nfs3.FH) (h vfs.Handle, status nfs3.Status) {
	h, err := q.OpenToMount(ctx, fh)
	return h, q.opened(ctx, err)
}

// opened returns the status of a call whose object was looked for with the result
// err. RFC 2623, Section 2.4, leaves the answer to a call of the wrong flavour to
// the server: it is denied by RPC, because Linux's client says then what is
// missing.
func (q *request) opened(ctx context.Context, err error) nfs3.Status {
	switch {
	case err == nil && q.Options.Refer.Set():
		err = realm.Stale // version 3 has no referrals
	case err == nil:
		return nfs3.OK
	case realm.BySecurity(err):
		q.tooWeak, q.unsafe = true, err == realm.WrongTransport
	}
	return q.status(err)
}

// openToChange is open for an object that the call will change. If the call is
// refused, wcc holds the available attributes.
func (q *request) openToChange(ctx context.Context, fh nfs3.FH) (h vfs.Handle, wcc nfs3.WccData, status nfs3.Status) {
	h, status = q.open(ctx, fh)
	if status == nfs3.OK && q.Options.ReadOnly {
		return h, q.unchanged(ctx, h), nfs3.ErrROFS
	}
	return h, nfs3.WccData{}, status
}

// openName is openToChange for a directory in which the call will change a
// name.
func (q *request) openName(ctx context.Context, a *nfs3.DirOpArgs, dots dotNames) (dir vfs.Handle, wcc nfs3.WccData, status nfs3.Status) {
	dir, wcc, status = q.openToChange(ctx, a.Dir)
	if status != nfs3.OK {
		return dir, wcc, status
	}
	if status = dots.check(a.Name); status != nfs3.OK {
		wcc = q.unchanged(ctx, dir)
	}
	return dir, wcc, status
}

// attr returns the attributes of h, if available, for the results of a
// procedure that fails before it calls the file system.
func (q *request) attr(ctx context.Context, h vfs.Handle) nfs3.PostOpAttr {
	a, err := q.Export.FS.GetAttr(ctx, &q.Cred, h)
	if err != nil || q.Written(h) {
		return nfs3.PostOpAttr{}
	}
	return nfs3.PostOpAttr{OK: true, Attr: wireAttr(&a)}
}

// postAttr returns the wire form of attributes of h, or of none if another client may
// change the object by itself: the client of this call can ask for them by GETATTR.
func (q *request) postAttr(h *vfs.Handle, a *vfs.MaybeAttr) nfs3.PostOpAttr {
	if q.Written(*h) {
		return nfs3.PostOpAttr{}
	}
	return wirePostAttr(a)
}

// unchanged is attr as wcc_data.
func (q *request) unchanged(ctx context.Context, h vfs.Handle) nfs3.WccData {
	return nfs3.WccData{After: q.attr(ctx, h)}
}

// handle returns the file handle of h, which is valid until the next call.
func (q *request) handle(h *vfs.Handle) nfs3.FH { return q.Handle(h) }

// status returns the status for a refusal or a file system's error, and logs
// the error if NFS has no status for it.
func (q *request) status(err error) nfs3.Status {
	status, known := statusOf(err)
	if !known {
		q.server.realm.Log().Warn("a file system's error has no NFS status; the client gets NFS3ERR_IO",
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
