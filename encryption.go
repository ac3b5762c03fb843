package nfsrdma

import (
	"context"
	"encoding/binary"
	"log/slog"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// onlyEncrypted is a Service that hands calls to next only if nobody on their way can
// read them: those that came inside of TLS or with krb5p. In clear it takes only calls
// without which clients cannot begin:
//
//   - procedure 0 of every program, which is also the probe for TLS and, below, the
//     making and ending of security contexts;
//   - MNT, which Linux asks in clear, and which gives no access;
//   - COMPOUNDs of version 4 with krb5i, of which nfs4server takes those that touch no
//     file.
//
// All others are denied, before anything is done.
type onlyEncrypted struct {
	next oncrpc.Service
	log  *slog.Logger
}

func newOnlyEncrypted(next oncrpc.Service, log *slog.Logger) *onlyEncrypted {
	return &onlyEncrypted{next, lograte.Logger(log)}
}

// Resumes reports Resumes of the Service behind.
func (e *onlyEncrypted) Resumes() bool { return oncrpc.Resumes(e.next) }

// headLen is the length in bytes of a call up to the flavour of its credential (RFC
// 5531, Section 9).
const headLen = 7 * 4

// Serve answers a call.
func (e *onlyEncrypted) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	if len(req.Msg) < headLen || req.Peer == nil || req.Peer.Security != nil {
		return e.next.Serve(ctx, req, rep) // what is shorter is no call, and has its answer there
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(req.Msg[4*i:]) }
	isCall := word(1) == rpcmsg.MsgCall && word(2) == rpcmsg.Version
	flavor := word(6)
	if req.Verified != nil {
		flavor = req.Verified.Flavor
	}
	prog, vers, proc := word(3), word(4), word(5)
	switch {
	case !isCall, proc == 0,
		req.Verified != nil && flavor == rpcmsg.AuthKrb5p,
		prog == mount3.Program && vers == mount3.Version && proc == mount3.ProcMnt,
		req.Verified != nil && flavor == rpcmsg.AuthKrb5i && prog == nfs4.Program && vers == nfs4.Version:
		return e.next.Serve(ctx, req, rep)
	}
	e.log.Warn("calls are refused, because anyone on the way could read them; mount with sec=krb5p or by TLS",
		"peer", req.Peer, "prog", prog, "vers", vers, "proc", proc, "sec", exports.Flavor(flavor))
	rep.Head = rpcmsg.AppendAuthError(rep.Head, word(0), rpcmsg.AuthTooWeak)
	rep.NoReplay = true
	return true
}
