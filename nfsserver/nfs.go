package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// An nfsProgram serves NFSv3.
type nfsProgram struct{ *Server }

// A procedure decodes the arguments in q.call, executes the call, and appends its results to r.
// A failure defined by the protocol is a result; an error is for the RPC layer. The most
// frequent procedures do not allocate: GETATTR, LOOKUP (except the name), ACCESS, READ and
// WRITE.
type procedure func(ctx context.Context, q *request, r *oncrpc.Reply) error

// procedures has no NULL, because the RPC layer replies to it.
var procedures = [nfs3.NumProc]procedure{
	nfs3.ProcGetAttr:     serveGetAttr,
	nfs3.ProcSetAttr:     serveSetAttr,
	nfs3.ProcLookup:      serveLookup,
	nfs3.ProcAccess:      serveAccess,
	nfs3.ProcReadLink:    serveReadLink,
	nfs3.ProcRead:        serveRead,
	nfs3.ProcWrite:       serveWrite,
	nfs3.ProcCreate:      serveCreate,
	nfs3.ProcMkdir:       serveMkdir,
	nfs3.ProcSymlink:     serveSymlink,
	nfs3.ProcMknod:       serveMknod,
	nfs3.ProcRemove:      serveRemove,
	nfs3.ProcRmdir:       serveRmdir,
	nfs3.ProcRename:      serveRename,
	nfs3.ProcLink:        serveLink,
	nfs3.ProcReadDir:     serveReadDir,
	nfs3.ProcReadDirPlus: serveReadDirPlus,
	nfs3.ProcFSStat:      serveFSStat,
	nfs3.ProcFSInfo:      serveFSInfo,
	nfs3.ProcPathConf:    servePathConf,
	nfs3.ProcCommit:      serveCommit,
}

// ServeRPC serves one NFS call.
func (p nfsProgram) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Proc >= nfs3.NumProc || procedures[c.Proc] == nil {
		return oncrpc.ErrProcUnavail
	}
	return p.serveProcedure(ctx, c, r, procedures[c.Proc])
}

// serveProcedure serves one call to a procedure whose results begin with a status.
func (s *Server) serveProcedure(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply, do procedure) error {
	q := s.beginRequest(c, r)
	defer s.endRequest(q)
	start := len(r.Head)
	err := do(ctx, q, r)
	if q.isTooWeak {
		q.LogDenial(ctx)
		return rpcmsg.AuthTooWeak
	}
	r.NoReplay = asksToRetry(r.Head[start:])
	return err
}
