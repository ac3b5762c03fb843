package krb5

import (
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/gss"
)

// The per-message tokens (RFC 4121, Section 4.2.6).
const (
	headerSize = 16
	idMIC      = 0x0404
	idWrap     = 0x0504
	filler     = 0xff
)

// The flags of per-message tokens (RFC 4121, Section 4.2.2). Receivers ignore
// all others.
const (
	flagSentByAcceptor = 1 << 0
	flagSealed         = 1 << 1
	flagAcceptorSubkey = 1 << 2
)

// A wrapHeader is the header of a Wrap token.
type wrapHeader [headerSize]byte

// extraCount returns the number of filler bytes between message and header.
func (h *wrapHeader) extraCount() int { return int(binary.BigEndian.Uint16(h[4:])) }

// rotation returns the count of bytes by which the sender has rotated all behind
// the header to the right.
func (h *wrapHeader) rotation() int { return int(binary.BigEndian.Uint16(h[6:])) }

// putHeader writes the header of a token into b. A MIC token has filler for EC
// and RRC, and they are 0 in a Wrap token that this package sends.
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

// checkHeader compares the header of a received token with the fields that it
// must have. The sequence number is free: RPCSEC_GSS has its own (RFC 2203,
// Section 5.2.2).
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

// The errors of received tokens. They are shared, so a forger makes no garbage.
var (
	errShort      = defective("the token is too short")
	errFramed     = defective("the token has the framing of a first token")
	errTokenID    = defective("the token is of another kind")
	errFiller     = defective("the token's filler is not 0xff")
	errSubkey     = defective("the token is not of the key that both ends agreed on")
	errSealed     = defective("the token is not encrypted, or a MIC that says it is")
	errExtraCount = defective("the token's extra count is larger than its contents")
	errDirection  = &gss.Error{Major: gss.BadMIC, Err: errors.New("the token comes from this end")}
	errMIC        = &gss.Error{Major: gss.BadMIC, Err: errIntegrity}
	errInner      = &gss.Error{Major: gss.BadMIC, Err: errors.New("the token's encrypted header differs from its clear one")}
)

func defective(text string) *gss.Error {
	return &gss.Error{Major: gss.DefectiveToken, Err: errors.New(text)}
}
