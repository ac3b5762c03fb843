package oncrpc

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// Numbers of RFC 5531, Section 9.
const (
	rpcVersion = 2

	msgCall  = 0 // msg_type
	msgReply = 1

	msgAccepted = 0 // reply_stat
	msgDenied   = 1

	success      = 0 // accept_stat
	progUnavail  = 1
	progMismatch = 2
	procUnavail  = 3
	garbageArgs  = 4
	systemErr    = 5

	rpcMismatch = 0 // reject_stat
	authError   = 1
)

// maxAuthBody is the length in octets of the longest body of an opaque_auth
// (RFC 5531, Section 8.2).
const maxAuthBody = 400

// acceptedLen is the length in octets of an accepted reply up to its results:
// six words, for the verifier is always an empty AUTH_NONE.
const acceptedLen = 24

// errRPCVersion: rpcvers is not 2.
var errRPCVersion = errors.New("oncrpc: RPC version not supported")

// An opaqueAuth is a credential or verifier. Its body aliases the message.
type opaqueAuth struct {
	flavor uint32
	body   []byte
}

// A callHeader is a call message up to its arguments (RFC 5531, Section 9).
type callHeader struct {
	xid, prog, vers, proc uint32

	cred, verf opaqueAuth
}

// readCall reads the header in front of r. With any error but ErrNoAnswer the
// XID is there. An authentication field with too long a body is an AuthError:
// RFC 2203, Section 5.3.3.3, counts a bad length among the credential's
// faults. A header that is cut is an error of package xdr.
func readCall(r *xdr.Reader) (h callHeader, err error) {
	h.xid = r.Uint32()
	direction, version := r.Uint32(), r.Uint32()
	switch {
	case r.Err() != nil || direction != msgCall:
		return h, ErrNoAnswer
	case version != rpcVersion:
		return h, fmt.Errorf("%w: %d", errRPCVersion, version)
	}
	h.prog, h.vers, h.proc = r.Uint32(), r.Uint32(), r.Uint32()
	if h.cred, err = readAuth(r, AuthBadCred); err != nil {
		return h, err
	}
	h.verf, err = readAuth(r, AuthBadVerf)
	return h, err
}

func readAuth(r *xdr.Reader, tooLong AuthError) (opaqueAuth, error) {
	a := opaqueAuth{flavor: r.Uint32(), body: r.Opaque(maxAuthBody)}
	if errors.Is(r.Err(), xdr.ErrLong) {
		return opaqueAuth{}, tooLong
	}
	return a, r.Err()
}

// appendAccepted appends an accepted reply up to its accept_stat. It is the
// whole reply for each stat but success and progMismatch.
func appendAccepted(b []byte, xid, stat uint32) []byte {
	b = appendReply(b, xid, msgAccepted)
	b = xdr.AppendUint32(b, AuthNone)
	b = xdr.AppendUint32(b, 0) // of the verifier's body
	return xdr.AppendUint32(b, stat)
}

// AppendProgMismatch appends the answer to a call of a version that is not
// there, with the lowest and highest that are.
func AppendProgMismatch(b []byte, xid, low, high uint32) []byte {
	b = appendAccepted(b, xid, progMismatch)
	b = xdr.AppendUint32(b, low)
	return xdr.AppendUint32(b, high)
}

// appendRPCMismatch appends the denial of an RPC version other than 2.
func appendRPCMismatch(b []byte, xid uint32) []byte {
	b = appendReply(b, xid, msgDenied)
	b = xdr.AppendUint32(b, rpcMismatch)
	b = xdr.AppendUint32(b, rpcVersion) // the lowest
	return xdr.AppendUint32(b, rpcVersion)
}

// AppendAuthError appends the denial of a caller.
func AppendAuthError(b []byte, xid uint32, stat AuthError) []byte {
	b = appendReply(b, xid, msgDenied)
	b = xdr.AppendUint32(b, authError)
	return xdr.AppendUint32(b, uint32(stat))
}

func appendReply(b []byte, xid, stat uint32) []byte {
	b = xdr.AppendUint32(b, xid)
	b = xdr.AppendUint32(b, msgReply)
	return xdr.AppendUint32(b, stat)
}
