package nfs3_test

import (
	"log"

	"github.com/willscott/go-nfs"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/stream"
)

// Any Handler of willscott/go-nfs serves NFS over RDMA. Clients use MOUNT over
// TCP (RFC 8267, Section 5.1), which the same Handler serves too.
func ExampleBinding() {
	var handler nfs.Handler
	var listener rdma.Listener // package iwarp has one over TCP
	l := stream.Listen(listener, nfs3.Binding{})
	log.Print(nfs.Serve(l, handler))
}
