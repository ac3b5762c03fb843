package lockserver

import (
	"context"
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// ExecuteOnce reports whether a call must not be executed again when it is retransmitted, as for
// replay.Config.Keep: a LOCK or UNLOCK that comes late would undo what the client has done since.
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

// Alone returns a Service for a transport that carries only the programs of this package to next.
func Alone(next oncrpc.Service) oncrpc.Service { return alone{next, new(oncrpc.Mux)} }

type alone struct {
	next, none oncrpc.Service
}

// progAt is the offset of the program in a call (RFC 5531, Section 9).
const progAt = 12

// Serve answers one call.
func (a alone) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	if len(req.Msg) >= progAt+4 {
		switch binary.BigEndian.Uint32(req.Msg[progAt:]) {
		case nlm4.Program, nsm.Program:
			return a.next.Serve(ctx, req, rep)
		}
	}
	return a.none.Serve(ctx, req, rep)
}
