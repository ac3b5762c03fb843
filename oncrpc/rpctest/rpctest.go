// Package rpctest has handlers and call messages for tests of packages that
// observe or replay calls.
package rpctest

import (
	"context"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// Numbers of programs.
const (
	NFS     = 100003
	Program = 0x20000001 // from the range for local use
)

// A HandlerFunc is a Handler for one test.
type HandlerFunc func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error

// ServeRPC implements oncrpc.Handler.
func (f HandlerFunc) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	return f(ctx, c, r)
}

// NewCall returns a call message with AUTH_NONE.
func NewCall(xid, prog, vers, proc uint32, args ...byte) []byte {
	var b []byte
	for _, w := range []uint32{xid, rpcmsg.MsgCall, rpcmsg.Version, prog, vers, proc, rpcmsg.AuthNone, 0, rpcmsg.AuthNone, 0} {
		b = xdr.AppendUint32(b, w)
	}
	return append(b, args...)
}
