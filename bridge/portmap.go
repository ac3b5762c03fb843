package bridge

import (
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/rpcbind"
)

// Portmap returns a portmapper, at TCP port own, that sends NFS and MOUNT to TCP
// port port, and nobody anywhere else.
func Portmap(own, port int) *rpcbind.Portmapper {
	m := func(prog, vers uint32, port int) rpcbind.Mapping {
		return rpcbind.Mapping{Prog: prog, Vers: vers, Prot: rpcbind.TCP, Port: uint32(port)}
	}
	return &rpcbind.Portmapper{Mappings: []rpcbind.Mapping{
		m(rpcbind.Program, rpcbind.PortmapVers, own),
		m(nfs3.Program, nfs3.Version, port),
		m(mount3.Program, mount3.Version, port),
	}}
}
