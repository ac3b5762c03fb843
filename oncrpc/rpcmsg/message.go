// Package rpcmsg is the codec for RPC version 2 (RFC 5531): call and reply headers,
// credentials and verifiers. It must not know sockets, clocks or programs.
package rpcmsg

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// CallHeaderLen is the length in bytes of the shortest call header: without credentials
// (RFC 5531, Section 9). The arguments follow the header.
const CallHeaderLen = 10 * 4

// Numbers from RFC 5531, Section 9.
const (
	Version = 2

	MsgCall  = 0 // msg_type
	MsgReply = 1

	MsgAccepted = 0 // reply_stat
	MsgDenied   = 1

	Success      = 0 // accept_stat
	ProgUnavail  = 1
	ProgMismatch = 2
	ProcUnavail  = 3
	GarbageArgs  = 4
	SystemErr    = 5

	RPCMismatch = 0 // reject_stat
	DeniedAuth  = 1
)

// MaxAuthBody is the maximum length in bytes of an opaque_auth body (RFC 5531, Section
// 8.2).
const MaxAuthBody = 400

// AcceptedLen is an accepted reply's length in bytes up to its results: six words,
// because the verifier is always an empty AUTH_NONE.
const AcceptedLen = 24

// ResultsAt returns the offset at which an accepted reply's results begin. Its verifier
// need not be empty.
func ResultsAt(reply []byte) int {
	n := int(binary.BigEndian.Uint32(reply[AcceptedLen-8:]))
	return AcceptedLen + n + xdr.Pad(n)
}

// ErrVersion reports that rpcvers is not 2.
var ErrVersion = errors.New("oncrpc: RPC version not supported")

// ErrNotCall reports that a message is not a call, or is too short for a call, and so
// cannot be replied to.
var ErrNotCall = errors.New("oncrpc: no answer")

// An OpaqueAuth is a credential or verifier. Its body aliases the message.
type OpaqueAuth struct {
	Flavor uint32
	Body   []byte
}

// A CallHeader is a call message up to its arguments (RFC 5531, Section 9).
type CallHeader struct {
	XID, Prog, Vers, Proc uint32

	Cred, Verf OpaqueAuth
}

// ReadCall reads the header at the start of r. The XID is valid with every
// error except ErrNotCall. An authentication field with too long a body is an
// AuthError: RFC 2203, Section 5.3.3.3, counts a bad length among the
// credential's faults. A truncated header is a package xdr error.
func ReadCall(r *xdr.Reader) (h CallHeader, err error) {
	h.XID = r.Uint32()
	direction, version := r.Uint32(), r.Uint32()
	switch {
	case r.Err() != nil || direction != MsgCall:
		return h, ErrNotCall
	case version != Version:
		return h, fmt.Errorf("%w: %d", ErrVersion, version)
	}
	h.Prog, h.Vers, h.Proc = r.Uint32(), r.Uint32(), r.Uint32()
	if h.Cred, err = readAuth(r, AuthBadCred); err != nil {
		return h, err
	}
	h.Verf, err = readAuth(r, AuthBadVerf)
	return h, err
}

func readAuth(r *xdr.Reader, tooLong AuthError) (OpaqueAuth, error) {
	a := OpaqueAuth{Flavor: r.Uint32(), Body: r.Opaque(MaxAuthBody)}
	if errors.Is(r.Err(), xdr.ErrLong) {
		return OpaqueAuth{}, tooLong
	}
	return a, r.Err()
}

// AppendAccepted appends an accepted reply up to its accept_stat. That is the
// whole reply for each stat except success and ProgMismatch.
func AppendAccepted(b []byte, xid, stat uint32) []byte {
	b = AppendReply(b, xid, MsgAccepted)
	b = xdr.AppendUint32(b, AuthNone)
	b = xdr.AppendUint32(b, 0) // length of the verifier's body
	return xdr.AppendUint32(b, stat)
}

// AppendProgMismatch appends the reply to a call for a missing version, with the
// program's lowest and highest version.
func AppendProgMismatch(b []byte, xid, low, high uint32) []byte {
	b = AppendAccepted(b, xid, ProgMismatch)
	b = xdr.AppendUint32(b, low)
	return xdr.AppendUint32(b, high)
}

// AppendRPCMismatch appends the denial for an RPC version other than 2.
func AppendRPCMismatch(b []byte, xid uint32) []byte {
	b = AppendReply(b, xid, MsgDenied)
	b = xdr.AppendUint32(b, RPCMismatch)
	b = xdr.AppendUint32(b, Version) // the lowest
	return xdr.AppendUint32(b, Version)
}

// AppendAuthError appends a denial with an auth_stat.
func AppendAuthError(b []byte, xid uint32, stat AuthError) []byte {
	b = AppendReply(b, xid, MsgDenied)
	b = xdr.AppendUint32(b, DeniedAuth)
	return xdr.AppendUint32(b, uint32(stat))
}

// AppendReply appends a reply up to its reply_stat.
func AppendReply(b []byte, xid, stat uint32) []byte {
	b = xdr.AppendUint32(b, xid)
	b = xdr.AppendUint32(b, MsgReply)
	return xdr.AppendUint32(b, stat)
}

// A Procedure identifies a call's procedure.
type Procedure struct{ Prog, Vers, Proc uint32 }

// ProcedureOf reads the first words of a call (RFC 5531, Section 9). It returns
// false for a message that is not a call of this RPC version.
func ProcedureOf(msg []byte) (p Procedure, ok bool) {
	if len(msg) < 6*4 || binary.BigEndian.Uint32(msg[4:]) != MsgCall || binary.BigEndian.Uint32(msg[8:]) != Version {
		return Procedure{}, false
	}
	return Procedure{
		Prog: binary.BigEndian.Uint32(msg[12:]),
		Vers: binary.BigEndian.Uint32(msg[16:]),
		Proc: binary.BigEndian.Uint32(msg[20:]),
	}, true
}
