package nfsserver

import (
	"context"
	"errors"
	"syscall"

	"github.com/nfsrdma/nfsrdma/delegation"
	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// An acquireProgram serves the delegation counter program (docs/delegation.md, Section 3).
type acquireProgram struct{ *Server }

// ServeRPC serves one call.
func (p acquireProgram) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Proc != delegation.ProcAcquire {
		return oncrpc.ErrProcUnavail
	}
	return p.serveProcedure(ctx, c, r, serveAcquire)
}

// serveAcquire implements ACQUIRE.
func serveAcquire(ctx context.Context, q *request, r *oncrpc.Reply) error {
	var a delegation.AcquireArgs
	a.Decode(&q.call.Args)
	if err := q.checkArgs(); err != nil {
		return err
	}
	var res delegation.AcquireRes
	h, status := q.openHandle(ctx, a.Handle)
	if status == nfs3.OK {
		status = q.grantTypes(ctx, h, a.Types, &res, r)
	}
	if status != nfs3.OK {
		res.Status = delegation.Status(status)
	}
	r.Head = res.AppendTo(r.Head)
	return nil
}

// grantTypes grants the available delegation types for an object, or sets the reason for
// granting none.
func (q *request) grantTypes(ctx context.Context, h vfs.Handle, types delegation.Types, res *delegation.AcquireRes, r *oncrpc.Reply) nfs3.Status {
	res.Status = delegation.StatusRefused
	if f := q.call.Cred.Flavor; q.Export.Keys == nil || f == rpcmsg.AuthKrb5i || f == rpcmsg.AuthKrb5p {
		return q.refuseGrant(res, delegation.ReasonTypes) // recalls and counters are neither signed nor encrypted
	}
	key, err := q.Key(h)
	switch {
	case errors.Is(err, syscall.EOPNOTSUPP):
		return q.refuseGrant(res, delegation.ReasonTypes)
	case err != nil:
		return q.toStatus(err)
	}
	if err := q.BeforeRead(ctx, h); err != nil { // no client can get a write delegation after Prepare
		return q.refuseGrant(res, delegation.ReasonContended)
	}
	var s *delegserver.PendingAcquire
	if s, res.Reason = q.server.exports.Grants().Prepare(q.call.Peer, key); res.Reason != 0 {
		return nfs3.OK
	}
	defer s.Cancel()
	if !q.IsCurrent() { // SetExports has recalled all delegations, except this one
		return q.refuseGrant(res, delegation.ReasonContended)
	}
	attr, err := q.Export.FS.GetAttr(ctx, &q.Cred, h)
	if err != nil {
		return q.toStatus(err)
	}
	types, leased := q.grantableTypes(attr.Type, types)
	if types == 0 {
		return q.refuseGrant(res, delegation.ReasonTypes)
	}
	if status := q.checkReadRight(ctx, h); status != nfs3.OK {
		return status
	}
	if leased {
		why, err := q.leaseObject(ctx, s, h)
		switch {
		case err != nil:
			return q.toStatus(err)
		case why != 0:
			return q.refuseGrant(res, why)
		}
	}
	if attr, err = q.Export.FS.GetAttr(ctx, &q.Cred, h); err != nil {
		return q.toStatus(err)
	}
	if attr.Type == vfs.TypeDir {
		s.Directory()
	}
	gt, why := s.Commit()
	if res.Reason = why; why != 0 {
		return nfs3.OK
	}
	r.Posted = s.Replied
	wire := toWireAttr(&attr)
	*res = delegation.AcquireRes{
		Status: delegation.StatusOK, Slot: gt.Slot, Generation: gt.Generation, Types: types,
		LeaseMS: uint32(q.server.exports.Grants().Lease().Milliseconds()), Attr: wire.AppendTo(nil),
	}
	return nfs3.OK
}

// refuseGrant sets the reason for a refusal that the Keeper has not decided.
func (q *request) refuseGrant(res *delegation.AcquireRes, why delegation.Reason) nfs3.Status {
	q.server.exports.Grants().Refused(why)
	res.Reason = why
	return nfs3.OK
}

// checkReadRight checks the right to read, which READ and READDIR would require. It does not
// try either of them, because that would count as an access to a directory.
func (q *request) checkReadRight(ctx context.Context, h vfs.Handle) nfs3.Status {
	rights, _, err := q.Export.FS.Access(ctx, &q.Cred, h, vfs.AccessRead)
	if err == nil && rights == 0 {
		return nfs3.ErrAcces
	}
	return q.toStatus(err)
}

// grantableTypes returns the types that can be granted: all of them if all changes go through
// the server, otherwise the types whose changes the file system reports through a lease.
func (q *request) grantableTypes(t vfs.Type, types delegation.Types) (_ delegation.Types, leased bool) {
	switch {
	case q.Options.Exclusive && t == vfs.TypeReg:
		return types & (delegation.FileData | delegation.FileAttributes), false
	case q.Options.Exclusive && t == vfs.TypeDir:
		return types & delegation.Directory, false
	case t == vfs.TypeReg && q.Export.Leaser != nil:
		return types & delegation.FileData, true
	}
	return 0, false
}

// leaseObject bases a grant on a file system lease. If no lease is available, it recalls
// another grant.
func (q *request) leaseObject(ctx context.Context, s *delegserver.PendingAcquire, h vfs.Handle) (delegation.Reason, error) {
	take := func(broken func()) (release func(), err error) {
		return q.Export.Leaser.Lease(ctx, &q.Cred, h, vfs.LeaseData, broken)
	}
	why, err := s.Lease(take)
	if errors.Is(err, syscall.EMFILE) && s.MakeRoom() {
		why, err = s.Lease(take)
	}
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return delegation.ReasonContended, nil
	case errors.Is(err, syscall.EMFILE):
		return delegation.ReasonLimit, nil
	case errors.Is(err, syscall.EOPNOTSUPP):
		return delegation.ReasonTypes, nil
	}
	return why, err
}
