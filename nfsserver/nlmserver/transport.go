package nlmserver

import (
	"context"
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// ExecuteOnce reports whether a call must not be executed again when it is retransmitted, as for
// replay.Config.Keep: a late LOCK or UNLOCK would undo what the client has done since.
func ExecuteOnce(p rpcmsg.Procedure) bool {
	if p.Prog != nlm4.Program {
		return false
	}
	switch p.Proc {
	case nlm4.ProcNull, nlm4.ProcTest, nlm4.ProcTestMsg:
		return false
	}
	return nlm4.Defined(p.Vers, p.Proc)
}

// Alone returns a Service that passes only calls of this package's programs to next.
func Alone(next oncrpc.Service) oncrpc.Service { return onlyLockPrograms{next, new(oncrpc.Mux)} }

type onlyLockPrograms struct {
	next, none oncrpc.Service
}

// progAt is the offset of the program in a call (RFC 5531, Section 9).
const progAt = 12

// Serve handles one call.
func (a onlyLockPrograms) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	if len(req.Msg) >= progAt+4 {
		switch binary.BigEndian.Uint32(req.Msg[progAt:]) {
		case nlm4.Program, nsm.Program:
			return a.next.Serve(ctx, req, rep)
		}
	}
	return a.none.Serve(ctx, req, rep)
}
