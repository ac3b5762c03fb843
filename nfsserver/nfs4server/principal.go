package nfs4server

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// callPrincipal returns the call's principal. A verified caller is identified by name, because
// all machines, and all other principals without a local user, share one UID.
func (x *compound) callPrincipal() nfs4state.Principal {
	switch c := &x.call.Cred; c.Flavor {
	case rpcmsg.AuthNone:
		return nfs4state.Principal{Flavor: rpcmsg.AuthNone}
	case rpcmsg.AuthKrb5, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5p: // whichever service the call uses
		return nfs4state.Principal{Flavor: rpcmsg.AuthGSS, Name: principalName(c.Principal)}
	default:
		return nfs4state.Principal{Flavor: c.Flavor, UID: c.UID}
	}
}

// unverifiedHost returns the Host of a caller without a verified principal.
func (x *compound) unverifiedHost() (h nfs4state.Host) {
	if x.call.Cred.Principal == "" {
		h = x.callerHost()
	}
	return h
}

// callerHost returns the Host from which a call comes, whatever its principal.
func (x *compound) callerHost() (h nfs4state.Host) {
	if p := x.call.Peer; p != nil && p.Security != nil {
		h = p.Security.Owner
	}
	return h
}

// principalName returns a principal's name, or its hash if the name is long. Names contain an
// @, so no name is a hash.
func principalName(principal string) string {
	if len(principal) <= nfs4state.MaxName {
		return principal
	}
	sum := sha256.Sum256([]byte(principal))
	return "sha256 " + hex.EncodeToString(sum[:])
}
