package nfs4server

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// lacksEncryption reports whether a call should be encrypted but is not.
func (s *Server) lacksEncryption(c *oncrpc.Call) bool {
	return s.onlyEncrypted && c.Cred.Flavor != rpcmsg.AuthKrb5p && c.Peer != nil && c.Peer.Security == nil
}

// setsFirstHandle reports whether an operation gives a COMPOUND its first filehandle. If
// Config.OnlyEncrypted is set, a Server rejects these operations in unencrypted calls: the
// remaining operations access no file, but only clients, sessions and stateids, for which Linux
// uses krb5i whatever sec= is. SECINFO and SECINFO_NO_NAME become unreachable too, although RFC
// 8881, Section 2.6.3.1.1.5, lets filehandles pass before them: Linux sends them with the
// mount's flavor.
func setsFirstHandle(op nfs4.Op) bool {
	return op == nfs4.OpPutFH || op == nfs4.OpPutRootFH || op == nfs4.OpPutPubFH
}

// canCallBack reports whether the server may send callbacks on a connection.
func (s *Server) canCallBack(p *oncrpc.Peer) bool {
	return p != nil && p.Reverse != nil && (p.Security != nil || !s.onlyEncrypted)
}

// logUnencrypted logs that an operation requires encryption.
func (x *compound) logUnencrypted() {
	x.server.log.Warn("rejecting unencrypted NFSv4 operations; clients must mount with sec=krb5p or TLS",
		"peer", x.call.Peer, "op", x.op, "sec", exports.Flavor(x.call.Cred.Flavor))
}

// usableFlavors returns the flavors in list that a client may use on the call's connection.
func (x *compound) usableFlavors(list []exports.Flavor) []exports.Flavor {
	p := x.call.Peer
	if !x.server.onlyEncrypted || p == nil || p.Security != nil {
		return list
	}
	return slices.DeleteFunc(list, func(f exports.Flavor) bool { return f != exports.FlavorKrb5p })
}
