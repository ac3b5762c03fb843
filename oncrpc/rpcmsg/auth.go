package rpcmsg

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// Authentication flavors (RFC 5531, Section 8.2).
const (
	AuthNone uint32 = 0
	AuthSys  uint32 = 1

	// AuthGSS is RPCSEC_GSS (RFC 2203), with which a message may be signed or sealed.
	// Package rpcsec serves it: programs see one of the pseudo-flavors below. Relayed
	// calls may carry it too.
	AuthGSS uint32 = 6

	// AuthTLS is the flavor of the call that requests TLS (RFC 9289). Package rpctls
	// serves it.
	AuthTLS uint32 = 7

	authShort uint32 = 2
)

// The Kerberos 5 pseudo-flavors (RFC 2623, Section 4.2) identify a mechanism together
// with its service. They are never sent in a call, so a Cred with one of them was
// verified.
const (
	AuthKrb5  uint32 = 390003 // the header is signed
	AuthKrb5i uint32 = 390004 // arguments and results are signed too
	AuthKrb5p uint32 = 390005 // arguments and results are encrypted
)

// The longest authsys_parms (RFC 5531, Appendix A).
const (
	MaxMachineName = 255 // bytes
	MaxGIDs        = 16
)

// Nobody is the user for calls without an identity, for programs that ignore Flavor. Zero
// would be the superuser, and 2^32-1 means "unchanged" to the system calls that set a
// user id.
const Nobody = 65534

// A Cred is a call's decoded credential. With AuthNone the ids are Nobody (65534). With
// AuthSys the ids are the peer's claim and may have any value. With a Kerberos
// pseudo-flavor the principal was verified, and the ids are those of its user on this
// host.
type Cred struct {
	Flavor uint32 // AuthNone, AuthSys or a pseudo-flavor
	UID    uint32
	GID    uint32
	GIDs   []uint32 // AuthSys: at most 16; valid until the handler returns

	// Principal is the verified name, "" without one.
	Principal string

	// Anonymous reports that the principal has no user on this host. The ids are then
	// Nobody, and an export may replace them.
	Anonymous bool

	// Unknown reports that the principal's user cannot currently be found: a call that
	// needs the user must be retried later. Anonymous is set too.
	Unknown bool
}

// An AuthError is an auth_stat (RFC 5531, Section 9), the reason why a caller was
// rejected. A Handler returns an AuthError to deny a call.
type AuthError uint32

// The auth_stat values that a server sends.
const (
	AuthBadCred      AuthError = 1 // the credential is malformed, or its flavor is not supported
	AuthRejectedCred AuthError = 2 // the caller must begin a new session
	AuthBadVerf      AuthError = 3 // the verifier is malformed
	AuthRejectedVerf AuthError = 4 // the verifier is too old, or was seen before
	AuthTooWeak      AuthError = 5 // the flavor is rejected for security reasons

	// RFC 2203, Section 3: the caller must establish a new context.
	AuthCredProblem AuthError = 13 // the server does not have the context
	AuthCtxProblem  AuthError = 14 // the context is no longer usable
)

// Error names the auth_stat.
func (e AuthError) Error() string {
	return fmt.Sprintf("oncrpc: call denied: %s (%d)", e.Name(), uint32(e))
}

// Name returns the name that RFC 5531 or RFC 2203 uses, or "unnamed".
func (e AuthError) Name() string {
	switch e {
	case AuthBadCred:
		return "AUTH_BADCRED"
	case AuthRejectedCred:
		return "AUTH_REJECTEDCRED"
	case AuthBadVerf:
		return "AUTH_BADVERF"
	case AuthRejectedVerf:
		return "AUTH_REJECTEDVERF"
	case AuthTooWeak:
		return "AUTH_TOOWEAK"
	case AuthCredProblem:
		return "RPCSEC_GSS_CREDPROBLEM"
	case AuthCtxProblem:
		return "RPCSEC_GSS_CTXPROBLEM"
	}
	return "unnamed"
}

// CheckFlavor returns the denial for an unsupported flavor.
//
// RFC 5531 specifies no auth_stat for an unknown flavor. AUTH_REJECTEDCRED would ask the
// caller to retry with a new session (and is the reply to an unknown shorthand
// credential, see Appendix A), which cannot help here. knfsd and RFC 9289, Section 4.1,
// use AUTH_BADCRED.
func CheckFlavor(flavor uint32) error {
	switch flavor {
	case AuthNone, AuthSys:
		return nil
	case authShort:
		return AuthRejectedCred
	default:
		return AuthBadCred
	}
}

// DecodeCred decodes a credential with a supported flavor. It stores the GIDs in gids.
//
// The bodies of an AUTH_NONE credential and verifier are undefined and ignored (Section
// 10.1). A verifier with another flavor cannot be verified here, and is rejected as in
// knfsd.
func DecodeCred(cred, verf OpaqueAuth, gids *[MaxGIDs]uint32) (Cred, error) {
	if verf.Flavor != AuthNone {
		return Cred{}, AuthBadVerf
	}
	if cred.Flavor == AuthNone {
		return Cred{Flavor: AuthNone, UID: Nobody, GID: Nobody}, nil
	}
	return DecodeAuthSys(cred.Body, gids)
}

// DecodeAuthSys decodes authsys_parms (Appendix A). Only the caller interprets the stamp.
// The machine name is the caller's claim, and is not used.
func DecodeAuthSys(body []byte, gids *[MaxGIDs]uint32) (Cred, error) {
	r := xdr.NewReader(body)
	r.Uint32() // stamp
	r.Opaque(MaxMachineName)
	c := Cred{Flavor: AuthSys, UID: r.Uint32(), GID: r.Uint32()}
	n := r.Uint32()
	if n > MaxGIDs {
		return Cred{}, AuthBadCred
	}
	c.GIDs = gids[:n]
	for i := range c.GIDs {
		c.GIDs[i] = r.Uint32()
	}
	if r.Done() != nil {
		return Cred{}, AuthBadCred
	}
	return c, nil
}
