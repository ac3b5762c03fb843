package rpcrdma_test

import (
	"context"
	"log"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A server takes its connections from the listener of any provider.
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

	// Later: answer what is under way, and take nothing new.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		log.Print("calls were cut off: ", err)
	}
}
