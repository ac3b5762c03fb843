package replay

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

const (
	nfs      = 100003
	testProg = 0x20000001 // from the range for local use
	procEcho = 1          // echoes an opaque as the reply's data item
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

// echoMux serves procEcho of testProg.
func echoMux() *oncrpc.Mux {
	m := new(oncrpc.Mux)
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		data := c.Args.Item(c.MaxReply)
		if err := c.Args.Done(); err != nil {
			return err
		}
		if c.Proc != procEcho {
			return oncrpc.ErrProcUnavail
		}
		copy(r.NewItem(len(data)), data)
		r.Head = xdr.AppendUint32(r.Head, uint32(len(data)))
		return nil
	}))
	return m
}

func echoCall(xid, proc uint32, data []byte) []byte {
	return call(xid, testProg, 2, proc, xdr.AppendOpaque(nil, data)...)
}

// bytesOf returns the reply in one piece and releases its item.
func bytesOf(r *oncrpc.Reply) []byte {
	b := bytes.Clone(r.Head)
	if r.Item != nil {
		b = xdr.AppendFixed(b, r.Item.B)
	}
	r.DropItem()
	return append(b, r.Tail...)
}
