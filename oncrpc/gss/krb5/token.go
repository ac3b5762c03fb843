package krb5

import (
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// The per-message tokens (RFC 4121, Section 4.2.6).
const (
	headerSize = 16
	idMIC      = 0x0404
	idWrap     = 0x0504
	filler     = 0xff
)

// Per-message token flags (RFC 4121, Section 4.2.2). Receivers ignore all others.
const (
	flagSentByAcceptor = 1 << 0
	flagSealed         = 1 << 1
	flagAcceptorSubkey = 1 << 2
)

// A wrapHeader is a Wrap token's header.
type wrapHeader [headerSize]byte

// extraCount returns the number of filler bytes between message and header.
func (h *wrapHeader) extraCount() int { return int(binary.BigEndian.Uint16(h[4:])) }

// rotation returns the number of bytes by which the sender rotated everything after the
// header to the right.
func (h *wrapHeader) rotation() int { return int(binary.BigEndian.Uint16(h[6:])) }

// putHeader writes a token's header into b. A MIC token has filler for EC and RRC; in a
// Wrap token that this package sends they are 0.
func putHeader(b []byte, id uint16, flags byte, seq uint64) {
	binary.BigEndian.PutUint16(b, id)
	b[2], b[3] = flags, filler
	var ecRRC uint32
	if id == idMIC {
		ecRRC = 0xffffffff
	}
	binary.BigEndian.PutUint32(b[4:], ecRRC)
	binary.BigEndian.PutUint64(b[8:], seq)
}

// checkHeader checks a received token's header fields. It does not check the sequence
// number, because RPCSEC_GSS has its own (RFC 2203, Section 5.2.2).
func checkHeader(h []byte, id uint16, flags byte) *gss.Error {
	switch got := binary.BigEndian.Uint16(h); {
	case got>>8 == tagApplication0:
		return errFramed // RFC 4121, Section 4.4
	case got != id:
		return errTokenID
	}
	if h[3] != filler || id == idMIC && binary.BigEndian.Uint32(h[4:]) != 0xffffffff {
		return errFiller
	}
	switch wrong := h[2] ^ flags; {
	case wrong&flagSentByAcceptor != 0:
		return errDirection
	case wrong&flagAcceptorSubkey != 0:
		return errSubkey
	case wrong&flagSealed != 0:
		return errSealed
	}
	return nil
}

// Errors for received tokens. They are shared, so that forged tokens cause no
// allocations.
var (
	errShort      = defectiveToken("the token is too short")
	errFramed     = defectiveToken("the token has a first token's framing")
	errTokenID    = defectiveToken("the token has another identifier")
	errFiller     = defectiveToken("the token's filler is not 0xff")
	errSubkey     = defectiveToken("the token does not use the key that both ends agreed on")
	errSealed     = defectiveToken("the token is not encrypted, or a MIC token has the Sealed flag")
	errExtraCount = defectiveToken("the token's extra count is larger than its contents")
	errDirection  = &gss.Error{Major: gss.BadMIC, Err: errors.New("the token was sent by this end")}
	errMIC        = &gss.Error{Major: gss.BadMIC, Err: errIntegrity}
	errInner      = &gss.Error{Major: gss.BadMIC, Err: errors.New("the token's encrypted header differs from its unencrypted one")}
)

func defectiveToken(text string) *gss.Error {
	return &gss.Error{Major: gss.DefectiveToken, Err: errors.New(text)}
}
