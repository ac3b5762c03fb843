package nfsrdma

import (
	"context"
	"encoding/binary"
	"log/slog"

	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// onlyEncrypted is a Service that passes only encrypted calls to next: those over TLS or
// with krb5p. Unencrypted, it accepts only calls that clients need at the start:
//
//   - procedure 0 of every program, which is also the probe for TLS and creates and
//     destroys security contexts;
//   - MNT, which Linux sends unencrypted and which grants no access;
//   - version 4 COMPOUNDs with krb5i, of which nfs4server accepts those that access no
//     file.
//
// All others are denied before they have any effect.
type onlyEncrypted struct {
	next oncrpc.Service
	log  *slog.Logger
}

// newOnlyEncrypted returns an onlyEncrypted before next.
func newOnlyEncrypted(next oncrpc.Service, log *slog.Logger) *onlyEncrypted {
	return &onlyEncrypted{next, lograte.Logger(log)}
}

// Resumes returns Resumes of next.
func (e *onlyEncrypted) Resumes() bool { return oncrpc.Resumes(e.next) }

// headLen is the length in bytes of a call up to and including its credential's flavor
// (RFC 5531, Section 9).
const headLen = 7 * 4

// Serve serves a call.
func (e *onlyEncrypted) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	if len(req.Msg) < headLen || req.Peer == nil || req.Peer.Security != nil {
		return e.next.Serve(ctx, req, rep) // next handles messages that are too short for a call
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
	e.log.Warn("unencrypted calls were denied; mount with sec=krb5p or TLS",
		"peer", req.Peer, "prog", prog, "vers", vers, "proc", proc, "sec", exports.Flavor(flavor))
	rep.Head = rpcmsg.AppendAuthError(rep.Head, word(0), rpcmsg.AuthTooWeak)
	rep.NoReplay = true
	return true
}
