package nfsserver

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
)

// repeatable are the procedures of which a call may be executed any number of
// times with the same results (RFC 1813, Section 4.5). WRITE is not among them:
// a call whose retry was answered may be executed late, and would undo what the
// client has written since then. knfsd keeps the replies of the same ones.
var repeatable = [nfs3.NumProc]bool{
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

// ExecuteOnce tells which calls are not to be executed again when they are
// retransmitted: it is what oncrpc.ReplayConfig.Keep asks. SETACL is one of them
// for the reason that WRITE is. The MOUNT program has none, as its list of clients
// is for people.
func ExecuteOnce(prog, vers, proc uint32) bool {
	if prog == nfsacl.Program {
		return vers == nfsacl.Version && proc == nfsacl.ProcSetACL
	}
	return prog == nfs3.Program && vers == nfs3.Version && proc < nfs3.NumProc && !repeatable[proc]
}

// putOff tells whether the results, whose first word is a status in all of the
// procedures but NULL, ask the client to come again later.
func putOff(results []byte) bool {
	return len(results) >= 4 && nfs3.Status(binary.BigEndian.Uint32(results)) == nfs3.ErrJukebox
}
