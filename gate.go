package nfsrdma

import (
	"context"
	"log/slog"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// A hostGate checks the calls of all programs: a host that is in no export's client list
// may only call procedure 0. Without it, such hosts could use NFSv4 sessions, locks and
// the list of exports, which belong to no export.
type hostGate struct {
	exports *exportset.Set
	log     *slog.Logger
}

// admitCall denies calls of unlisted hosts with the status of Linux's server: programs on
// the client get EACCES. While a host's name is unknown, programs that check the exports
// at each call return their own "try later" status. For the others the connection is
// closed, and the client reconnects and retransmits.
func (g *hostGate) admitCall(ctx context.Context, c *oncrpc.Call) error {
	switch err := g.exports.CheckListed(ctx, c.Peer); {
	case err == nil, err == exportset.Later && asksExports(c):
		return nil
	case err == exportset.Later:
		if c.Peer.Cut != nil {
			waitFor(ctx, cutDelay)
			c.Peer.Cut(err)
		}
		return oncrpc.ErrNoAnswer
	}
	g.log.Warn("calls denied: no export lists this host", "peer", c.Peer, "prog", c.Prog, "vers", c.Vers, "proc", c.Proc)
	return rpcmsg.AuthBadCred
}

// cutDelay is how long a call waits before its connection is closed. Linux's client
// replaces a lost RDMA connection immediately, hundreds of times a second.
const cutDelay = time.Second

// waitFor waits for d or until ctx ends.
func waitFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// asksExports reports whether the called program itself checks the exports.
func asksExports(c *oncrpc.Call) bool {
	switch c.Prog {
	case nfs3.Program:
		return c.Vers == nfs3.Version
	case mount3.Program:
		return c.Proc == mount3.ProcMnt
	}
	return c.Prog == nfsacl.Program
}
