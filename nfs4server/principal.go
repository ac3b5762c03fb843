package nfs4server

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/nfsrdma/nfsrdma/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// principal returns the maker of the call: that of a verified call by name, because all
// machines, and all other principals without a user here, have one UID.
func (x *compound) principal() nfs4state.Principal {
	switch c := &x.call.Cred; c.Flavor {
	case rpcmsg.AuthNone:
		return nfs4state.Principal{Flavor: rpcmsg.AuthNone}
	case rpcmsg.AuthKrb5, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5p: // whichever service a call has
		return nfs4state.Principal{Flavor: rpcmsg.AuthGSS, Name: nameOf(c.Principal)}
	default:
		return nfs4state.Principal{Flavor: c.Flavor, UID: c.UID}
	}
}

// host returns the Host of a caller whose principal nobody has verified.
func (x *compound) host() (h nfs4state.Host) {
	if x.call.Cred.Principal == "" {
		h = x.machine()
	}
	return h
}

// machine returns the Host from which a call comes, whoever the caller is.
func (x *compound) machine() (h nfs4state.Host) {
	if p := x.call.Peer; p != nil && p.Security != nil {
		h = p.Security.Owner
	}
	return h
}

// nameOf returns the name of a principal, or its hash if it is long. Names have an @, and so
// no name is a hash.
func nameOf(principal string) string {
	if len(principal) <= nfs4state.MaxName {
		return principal
	}
	sum := sha256.Sum256([]byte(principal))
	return "sha256 " + hex.EncodeToString(sum[:])
}
