package rpcrdma_test

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A Client makes any program's calls, even across the server's restarts.
func ExampleClient() {
	var dialer rdma.Dialer // package iwarp has one over TCP
	ctx := context.Background()
	line, err := rpcrdma.Dial(ctx, dialer, "server:20049", rpcrdma.ClientConfig{GiveUp: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	defer line.Close()
	x := oncrpc.Exchange{Prog: 100003, Vers: 3} // NFS, NULL
	if err := line.Call(ctx, &x); errors.Is(err, oncrpc.ErrUnreachable) {
		log.Print("no server for a minute: ", err)
	}
	x.Release()
}

// A server takes its connections from any provider's listener.
func ExampleServer() {
	var listener rdma.Listener // package iwarp has one over TCP
	var program oncrpc.Handler
	mux := new(oncrpc.Mux)
	mux.Register(100003, 3, program)

	s := &rpcrdma.Server{Handler: mux, Credits: 64}
	go func() {
		if err := s.Serve(listener); err != nil {
			log.Print(err)
		}
	}()

	// Later: answer the calls in flight, and take no new ones.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		log.Print("calls were cut off: ", err)
	}
}
