package gonfs_test

import (
	"log"

	"github.com/willscott/go-nfs/helpers"
	"github.com/willscott/go-nfs/helpers/memfs"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/gonfs"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// Serve a go-nfs handler over RDMA, to be mounted as server:/memory. Exports may contain a host
// directory too.
func ExampleNew() {
	handler := helpers.NewCachingHandler(helpers.NewNullAuthHandler(memfs.New()), 4096)
	var listener rdma.Listener // package iwarp has one over TCP

	fs, err := gonfs.New(handler)
	if err != nil {
		log.Fatal(err)
	}
	server, err := nfsserver.New(nfsserver.Config{Exports: []nfsserver.Export{{Path: "/memory", FS: fs}}})
	if err != nil {
		log.Fatal(err)
	}
	mux := new(oncrpc.Mux)
	server.Register(mux)
	over := &rpcrdma.Server{Handler: mux}
	log.Print(over.Serve(listener)) // until over.Shutdown
}
