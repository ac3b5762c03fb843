package bridge

import (
	"net/netip"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/rpcbind"
)

// Portmap returns a portmapper that is found as own says, and that sends who wants
// NFS or MOUNT to a TCP listener's address, and nobody anywhere else.
func Portmap(own []rpcbind.Service, at netip.AddrPort) *rpcbind.Portmapper {
	return rpcbind.NewPortmapper(slices.Concat(own,
		rpcbind.Services("tcp", at, nfs3.Program, nfs3.Version),
		rpcbind.Services("tcp", at, mount3.Program, mount3.Version)))
}
