package rpcsec

import (
	"math"

	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// Numbers of RFC 2203, Section 5.
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

// plainHeader is the length in bytes of a call up to its arguments, with an
// empty AUTH_NONE credential and verifier.
const plainHeader = 10 * 4

// maxHandle is the length in bytes of the longest handle that a credential has room for.
const maxHandle = rpcmsg.MaxAuthBody - 5*4

// A credential is rpc_gss_cred_vers_1_t (RFC 2203, Section 5).
type credential struct {
	proc, seq, service uint32
	handle             []byte // aliases the message
}

// readCredential reads the body of a credential. Errors are of type
// rpcmsg.AuthError.
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

// credentialLen returns the length in bytes of a credential with its flavour.
func credentialLen(handle []byte) int { return 7*4 + len(handle) + xdr.Pad(len(handle)) }

// appendCredential appends a credential with its flavour.
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

// len returns the encoded length in bytes.
func (i *initResult) len() int {
	return 5*4 + len(i.handle) + xdr.Pad(len(i.handle)) + len(i.token) + xdr.Pad(len(i.token))
}

func (i *initResult) appendTo(b []byte) []byte {
	b = xdr.AppendOpaque(b, i.handle)
	for _, v := range [...]uint32{uint32(i.major), i.minor, i.window} {
		b = xdr.AppendUint32(b, v)
	}
	return xdr.AppendOpaque(b, i.token)
}

// read reads all of r. Handle and token alias it.
func (i *initResult) read(r *xdr.Reader) error {
	i.handle = r.Opaque(maxHandle)
	i.major, i.minor, i.window = gss.Major(r.Uint32()), r.Uint32(), r.Uint32()
	i.token = r.Opaque(maxToken)
	return r.Done()
}

// padded returns the length in bytes of an opaque of n bytes with its length
// word and padding.
func padded(n int) int { return 4 + n + xdr.Pad(n) }

// unlimited is the limit of an opaque that only its message limits.
const unlimited = math.MaxInt32
