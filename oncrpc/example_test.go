package oncrpc_test

import (
	"context"
	"fmt"
	"net"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

const adder = 0x20000099 // a program number for local use

// add is version 1 of a program whose procedure 1 adds two numbers.
type add struct{}

func (add) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Proc != 1 {
		return oncrpc.ErrProcUnavail
	}
	r.Head = xdr.AppendUint32(r.Head, c.Args.Uint32()+c.Args.Uint32())
	return c.Args.Done()
}

func Example() {
	ctx := context.Background()
	mux := new(oncrpc.Mux)
	mux.Register(adder, 1, add{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := &oncrpc.Server{Handler: mux}
	go s.Serve(l)
	defer s.Shutdown(ctx)

	c, err := oncrpc.DialTCP(ctx, l.Addr().String(), oncrpc.ClientConfig{})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	x := oncrpc.Exchange{Prog: adder, Vers: 1, Proc: 1, MaxResults: 4}
	x.Args = xdr.AppendUint32(xdr.AppendUint32(nil, 40), 2)
	if err := c.Call(ctx, &x); err != nil {
		panic(err)
	}
	defer x.Release()
	fmt.Println(x.Results.Uint32(), x.Results.Done())
	// Output: 42 <nil>
}
