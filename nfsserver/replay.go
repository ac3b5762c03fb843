package nfsserver

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// isIdempotent are the procedures whose calls may be executed any number of times with the same
// results (RFC 1813, Section 4.5). WRITE is not among them: a call whose retry has already been
// answered may be executed late, and would undo the client's later writes. knfsd caches the
// replies of the same procedures.
var isIdempotent = [nfs3.NumProc]bool{
	nfs3.ProcNull:        true,
	nfs3.ProcGetAttr:     true,
	nfs3.ProcLookup:      true,
	nfs3.ProcAccess:      true,
	nfs3.ProcReadLink:    true,
	nfs3.ProcRead:        true,
	nfs3.ProcReadDir:     true,
	nfs3.ProcReadDirPlus: true,
	nfs3.ProcFSStat:      true,
	nfs3.ProcFSInfo:      true,
	nfs3.ProcPathConf:    true,
	nfs3.ProcCommit:      true,
}

// ExecuteOnce reports whether a call must not be executed again when it is retransmitted, as
// for replay.Config.Keep. SETACL is such a call for the same reason as WRITE. The MOUNT program
// has none, because its list of clients is only informational. For NFSv4, see nfs4.Once.
func ExecuteOnce(p rpcmsg.Procedure, _ []byte) bool {
	if p.Prog == nfsacl.Program {
		return p.Vers == nfsacl.Version && p.Proc == nfsacl.ProcSetACL
	}
	return p.Prog == nfs3.Program && p.Vers == nfs3.Version && p.Proc < nfs3.NumProc && !isIdempotent[p.Proc]
}

// asksToRetry reports whether the results tell the client to try again later. Their first word
// is a status in all procedures except NULL.
func asksToRetry(results []byte) bool {
	return len(results) >= 4 && nfs3.Status(binary.BigEndian.Uint32(results)) == nfs3.ErrJukebox
}
