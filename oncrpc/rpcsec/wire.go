package rpcsec

import (
	"math"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// Numbers from RFC 2203, Section 5.
const (
	version = 1

	procData         = 0 // gss_proc
	procInit         = 1
	procContinueInit = 2
	procDestroy      = 3

	serviceNone      = 1 // the header is signed
	serviceIntegrity = 2 // arguments and results are signed
	servicePrivacy   = 3 // arguments and results are encrypted

	// maxSeq is the first sequence number that is never used (MAXSEQ).
	maxSeq = 1 << 31
)

// plainHeader is a call's length in bytes up to its arguments, with an empty AUTH_NONE
// credential and verifier.
const plainHeader = 10 * 4

// maxHandle is the maximum length in bytes of a handle in a credential.
const maxHandle = rpcmsg.MaxAuthBody - 5*4

// A credential is rpc_gss_cred_vers_1_t (RFC 2203, Section 5).
type credential struct {
	proc, seq, service uint32
	handle             []byte // aliases the message
}

// readCredential reads a credential's body. Errors have type rpcmsg.AuthError.
func readCredential(body []byte) (c credential, err error) {
	r := xdr.NewReader(body)
	if v := r.Uint32(); r.Err() == nil && v != version { // Section 5.1
		return credential{}, rpcmsg.AuthRejectedCred
	}
	c.proc, c.seq, c.service = r.Uint32(), r.Uint32(), r.Uint32()
	c.handle = r.Opaque(maxHandle)
	switch {
	case r.Done() != nil || c.proc > procDestroy: // Section 5.3.3.3
		return credential{}, rpcmsg.AuthBadCred
	case c.proc == procInit || c.proc == procContinueInit: // Section 5.2.2: service and seq_num are ignored
	case c.service < serviceNone || c.service > servicePrivacy:
		return credential{}, rpcmsg.AuthBadCred
	}
	return c, nil
}

// credentialLen returns a credential's length in bytes, with its flavor.
func credentialLen(handle []byte) int { return 7*4 + len(handle) + xdr.Pad(len(handle)) }

// appendCredential appends a credential with its flavor.
func appendCredential(b []byte, c credential) []byte {
	b = xdr.AppendUint32(b, rpcmsg.AuthGSS)
	b = xdr.AppendUint32(b, uint32(credentialLen(c.handle)-2*4))
	for _, v := range [...]uint32{version, c.proc, c.seq, c.service} {
		b = xdr.AppendUint32(b, v)
	}
	return xdr.AppendOpaque(b, c.handle)
}

// An initResult is rpc_gss_init_res (RFC 2203, Section 5.2.3.1).
type initResult struct {
	handle []byte
	major  gss.Major
	minor  uint32
	window uint32
	token  []byte
}

// encodedLen returns the encoded length in bytes.
func (i *initResult) encodedLen() int {
	return 5*4 + len(i.handle) + xdr.Pad(len(i.handle)) + len(i.token) + xdr.Pad(len(i.token))
}

func (i *initResult) appendTo(b []byte) []byte {
	b = xdr.AppendOpaque(b, i.handle)
	for _, v := range [...]uint32{uint32(i.major), i.minor, i.window} {
		b = xdr.AppendUint32(b, v)
	}
	return xdr.AppendOpaque(b, i.token)
}

// decode reads all of r. Handle and token alias it.
func (i *initResult) decode(r *xdr.Reader) error {
	i.handle = r.Opaque(maxHandle)
	i.major, i.minor, i.window = gss.Major(r.Uint32()), r.Uint32(), r.Uint32()
	i.token = r.Opaque(maxToken)
	return r.Done()
}

// opaqueLen returns the length in bytes of an n-byte opaque with its length word and
// padding.
func opaqueLen(n int) int { return 4 + n + xdr.Pad(n) }

// unlimited is the limit for an opaque whose length only its message limits.
const unlimited = math.MaxInt32
