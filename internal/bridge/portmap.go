package bridge

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
)

// Portmap returns a portmapper that lists only the services in own, and a TCP
// listener's address for NFS and MOUNT.
func Portmap(own []rpcbind.Service, at netip.AddrPort) *rpcbind.Portmapper {
	return rpcbind.NewPortmapper(slices.Concat(own,
		rpcbind.Services("tcp", at, nfs3.Program, nfs3.Version),
		rpcbind.Services("tcp", at, mount3.Program, mount3.Version)))
}

// endOfReservedPorts is the first port that not only the superuser of a host may
// use.
const endOfReservedPorts = 1024

// errPort is the error for a client that may be any user of its host, and so may
// claim any user in its calls.
var errPort = errors.New("any user can have a port of 1024 or above: use a lower port at the client, as root's mounts do, or allow all ports (mountrdma bridge --insecure)")

// isVouched reports whether the superuser of the client's host vouches for a call.
// The server assumes so for every call over RDMA, and cannot check. Calls that name
// no user are allowed for all, as with knfsd and rpc.mountd: NULL, and MOUNT's
// lists. A signature vouches for its call. Only clients in other processes have a
// Peer.
func (b *Bridge) isVouched(c *oncrpc.Call, peer *oncrpc.Peer) bool {
	return b.Insecure || isSigned(c) || peer == nil || peer.Addr.Port() < endOfReservedPorts || c.Proc == 0 ||
		c.Prog == mount3.Program && (c.Proc == mount3.ProcDump || c.Proc == mount3.ProcExport)
}
