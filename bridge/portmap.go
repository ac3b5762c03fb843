package bridge

import (
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/rpcbind"
)

// Portmap returns a portmapper, at port own, that sends who wants NFS or MOUNT to
// TCP port port, and nobody anywhere else.
func Portmap(own, port int) *rpcbind.Portmapper {
	return &rpcbind.Portmapper{Mappings: []rpcbind.Mapping{
		{Prog: rpcbind.Program, Vers: rpcbind.PortmapVers, Prot: rpcbind.TCP, Port: uint32(own)},
		{Prog: rpcbind.Program, Vers: rpcbind.PortmapVers, Prot: rpcbind.UDP, Port: uint32(own)},
		{Prog: nfs3.Program, Vers: nfs3.Version, Prot: rpcbind.TCP, Port: uint32(port)},
		{Prog: mount3.Program, Vers: mount3.Version, Prot: rpcbind.TCP, Port: uint32(port)},
	}}
}
