package nfs4server

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// readable reports whether others can read a call on its way, and must not.
func (s *Server) readable(c *oncrpc.Call) bool {
	return s.onlyEncrypted && c.Cred.Flavor != rpcmsg.AuthKrb5p && c.Peer != nil && c.Peer.Security == nil
}

// begins reports whether an operation gives a COMPOUND its first filehandle. A Server
// with Config.OnlyEncrypted refuses these to calls that others can read: what is left
// touches no file, but clients, sessions and stateids alone, for which Linux makes calls
// with krb5i, whatever sec= is. SECINFO and SECINFO_NO_NAME are out of reach too,
// although RFC 8881, Section 2.6.3.1.1.5, has filehandles pass in front of them: Linux
// then asks with the flavour of the mount.
func begins(op nfs4.Op) bool {
	return op == nfs4.OpPutFH || op == nfs4.OpPutRootFH || op == nfs4.OpPutPubFH
}

// callable reports whether the server may make callbacks over a connection.
func (s *Server) callable(p *oncrpc.Peer) bool {
	return p != nil && p.Reverse != nil && (p.Security != nil || !s.onlyEncrypted)
}

// turnAway logs that an operation needs encryption.
func (x *compound) turnAway() {
	x.server.log.Warn("operations of version 4 are refused, because anyone on the way could read them; mount with sec=krb5p or by TLS",
		"peer", x.call.Peer, "op", x.op, "sec", exports.Flavor(x.call.Cred.Flavor))
}

// usable returns the flavours of a list with which a client may go on by the
// connection of the call.
func (x *compound) usable(list []exports.Flavor) []exports.Flavor {
	p := x.call.Peer
	if !x.server.onlyEncrypted || p == nil || p.Security != nil {
		return list
	}
	return slices.DeleteFunc(list, func(f exports.Flavor) bool { return f != exports.FlavorKrb5p })
}
