package rpcstats

import (
	"context"
	"log/slog"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

const (
	nfs      = 100003
	testProg = 0x20000001 // from the range for local use
)

// A handlerFunc is a Handler for one test.
type handlerFunc func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error

func (f handlerFunc) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	return f(ctx, c, r)
}

// call returns a call message with AUTH_NONE.
func call(xid, prog, vers, proc uint32, args ...byte) []byte {
	var b []byte
	for _, w := range []uint32{xid, rpcmsg.MsgCall, rpcmsg.Version, prog, vers, proc, rpcmsg.AuthNone, 0, rpcmsg.AuthNone, 0} {
		b = xdr.AppendUint32(b, w)
	}
	return append(b, args...)
}

// quiet returns a log for tests that provoke errors.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
