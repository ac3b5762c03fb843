package nfsserver

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// An nfsProgram is NFS version 3.
type nfsProgram struct{ *Server }

// A procedure decodes the arguments of q.call, executes the call, and appends
// its results to r. A failure defined by the protocol is a result; an error is
// for the RPC layer. The most frequent procedures do not allocate: GETATTR,
// LOOKUP (except the name), ACCESS, READ and WRITE.
type procedure func(ctx context.Context, q *request, r *oncrpc.Reply) error

// procedures has no NULL, because the RPC layer answers it.
var procedures = [nfs3.NumProc]procedure{
	nfs3.ProcGetAttr:     getAttr,
	nfs3.ProcSetAttr:     setAttr,
	nfs3.ProcLookup:      lookup,
	nfs3.ProcAccess:      access,
	nfs3.ProcReadLink:    readLink,
	nfs3.ProcRead:        read,
	nfs3.ProcWrite:       write,
	nfs3.ProcCreate:      create,
	nfs3.ProcMkdir:       mkdir,
	nfs3.ProcSymlink:     symlink,
	nfs3.ProcMknod:       mknod,
	nfs3.ProcRemove:      remove,
	nfs3.ProcRmdir:       rmdir,
	nfs3.ProcRename:      rename,
	nfs3.ProcLink:        link,
	nfs3.ProcReadDir:     readDir,
	nfs3.ProcReadDirPlus: readDirPlus,
	nfs3.ProcFSStat:      fsStat,
	nfs3.ProcFSInfo:      fsInfo,
	nfs3.ProcPathConf:    pathConf,
	nfs3.ProcCommit:      commit,
}

// ServeRPC handles one NFS call.
func (p nfsProgram) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Proc >= nfs3.NumProc || procedures[c.Proc] == nil {
		return oncrpc.ErrProcUnavail
	}
	return p.serve(ctx, c, r, procedures[c.Proc])
}

// serve handles one call of a procedure whose results begin with a status.
func (s *Server) serve(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply, do procedure) error {
	q := s.begin(c, r)
	defer s.end(q)
	start := len(r.Head)
	err := do(ctx, q, r)
	if q.tooWeak {
		q.TurnAway(ctx)
		return rpcmsg.AuthTooWeak
	}
	r.NoReplay = putOff(r.Head[start:])
	return err
}
