package nfsserver_test

import (
	"net"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// Serve a host directory over TCP, to be mounted as server:/data.
func Example() {
	fs, err := posix.Open("/srv/data", posix.Options{StateDir: "/var/lib/nfsrdmad/data"})
	if err != nil {
		return
	}
	defer fs.Close()
	server, err := nfsserver.New(nfsserver.Config{
		Exports: []nfsserver.Export{{Path: "/data", FS: fs}},
		Key:     [32]byte{ /* 32 random bytes, kept in a file of mode 0600 */ },
	})
	if err != nil {
		return
	}
	mux := new(oncrpc.Mux)
	server.Register(mux)
	l, err := net.Listen("tcp", ":2049")
	if err != nil {
		return
	}
	tcp := &oncrpc.Server{Handler: mux}
	_ = tcp.Serve(l) // until tcp.Shutdown
}
