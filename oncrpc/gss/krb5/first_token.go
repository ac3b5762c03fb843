package krb5

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// maxToken is the maximum size in bytes of a first token. If a client is in very many
// groups, its ticket has some 12,000.
const maxToken = 64 << 10

// maxOID is the maximum number of bytes to write from an unknown mechanism's OID.
const maxOID = 32

// First token identifiers (RFC 4121, Section 4.1).
const (
	tokenAPReq = 0x0100
	tokenAPRep = 0x0200
	tokenError = 0x0300
)

// Mechanisms, as OBJECT IDENTIFIER contents.
var (
	oidKerberos = []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}
	oidSPNEGO   = []byte{0x2b, 0x06, 0x01, 0x05, 0x05, 0x02}
)

// unframeToken returns a first token's identifier and message (RFC 2743, Section 3.1).
func unframeToken(token []byte) ([]byte, error) {
	if len(token) > maxToken {
		return nil, &gss.Error{Major: gss.DefectiveToken, Err: fmt.Errorf("the first token has %d bytes (limit %d)", len(token), maxToken)}
	}
	s := cryptobyte.String(token)
	var inner, oid cryptobyte.String
	if !s.ReadASN1(&inner, asn1.Tag(tagApplication0)) || !s.Empty() || !inner.ReadASN1(&oid, asn1.OBJECT_IDENTIFIER) {
		return nil, defectiveToken("the first token has no GSS-API framing")
	}
	switch {
	case bytes.Equal(oid, oidSPNEGO):
		return nil, &gss.Error{Major: gss.BadMech, Err: errors.New("the client negotiates the mechanism (SPNEGO); only Kerberos itself is accepted")}
	case !bytes.Equal(oid, oidKerberos):
		return nil, &gss.Error{Major: gss.BadMech, Err: fmt.Errorf("the client's mechanism is %x, not Kerberos", []byte(oid[:min(len(oid), maxOID)]))}
	case len(inner) < 2:
		return nil, defectiveToken("the first token ends within its identifier")
	}
	return inner, nil
}

// frameToken returns a first token with an identifier and a message.
func frameToken(id uint16, message []byte) []byte {
	var b cryptobyte.Builder
	b.AddASN1(asn1.Tag(tagApplication0), func(b *cryptobyte.Builder) {
		b.AddASN1(asn1.OBJECT_IDENTIFIER, func(b *cryptobyte.Builder) { b.AddBytes(oidKerberos) })
		b.AddUint16(id)
		b.AddBytes(message)
	})
	return b.BytesOrPanic()
}

// The authenticator's checksum (RFC 4121, Section 4.1.1).
const (
	checksumType  = 0x8003
	bindingsSize  = 16
	checksumSize  = 24 // without delegation
	flagDelegate  = 1
	flagMutual    = 2
	delegatedSize = 28 // and the delegated ticket itself
)

// checkBindings checks the flags and the channel bindings in the authenticator's
// checksum. A delegated ticket and what follows it are ignored.
func (e *exchange) checkBindings(a authenticator) error {
	if a.checksumType != checksumType {
		return rejectf(codeInapplicable, "the authenticator's checksum has type %d, not the GSS-API's", a.checksumType)
	}
	sum := a.checksum
	if len(sum) < checksumSize || binary.LittleEndian.Uint32(sum) != bindingsSize {
		return errChecksum
	}
	flags := binary.LittleEndian.Uint32(sum[20:])
	if flags&flagDelegate != 0 && (len(sum) < delegatedSize || len(sum)-delegatedSize < int(binary.LittleEndian.Uint16(sum[26:]))) {
		return errChecksum
	}
	if got := sum[4 : 4+bindingsSize]; !bytes.Equal(got, make([]byte, bindingsSize)) {
		switch {
		case e.bindings == nil:
			return &rejection{gss.BadBindings, codeGeneric, "the client's token is bound to TLS, but the connection does not use TLS: a machine in the middle may have terminated it"}
		case !bytes.Equal(got, bindingsSum(e.bindings)):
			return &rejection{gss.BadBindings, codeGeneric, "the client's token is bound to another TLS session than the connection's: there may be a machine in the middle"}
		}
	}
	e.mutual = flags&flagMutual != 0
	return nil
}

var errChecksum = errors.New("the authenticator's checksum is malformed")

// bindingsSum returns the MD5 sum of bindings without addresses (RFC 4121, Section
// 4.1.1.2). It need not resist an attacker, because it is in an encrypted message.
func bindingsSum(bindings []byte) []byte {
	h := md5.New()
	h.Write(make([]byte, 4*4)) // types and lengths of the two addresses
	h.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(bindings))))
	h.Write(bindings)
	return h.Sum(nil)
}
