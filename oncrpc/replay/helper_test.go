package replay

import (
	"bytes"
	"context"
	"log/slog"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

const procEcho = 1 // echoes an opaque as the reply's data item

// discardLogger returns a log for tests that provoke errors.
func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// echoMux serves procEcho of rpctest.Program.
func echoMux() *oncrpc.Mux {
	m := new(oncrpc.Mux)
	m.Register(rpctest.Program, 2, rpctest.HandlerFunc(func(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
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
	return rpctest.NewCall(xid, rpctest.Program, 2, proc, xdr.AppendOpaque(nil, data)...)
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
