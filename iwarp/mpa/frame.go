package mpa

import (
	"encoding/binary"
	"fmt"
)

const (
	requestKey = "MPA ID Req Frame"
	replyKey   = "MPA ID Rep Frame"
)

// The flag octet. The other bits are sent as zero and not checked (RFC 5044,
// Section 7.1.1, Res).
const (
	flagM   = 0x80
	flagCRC = 0x40
	flagR   = 0x20
	flagS   = 0x10
)

// Offsets in a frame's header, in octets.
const (
	offFlags = 16
	offRev   = 17
	offPD    = 18
)

// A Frame is an MPA Request or Reply Frame (RFC 5044, Section 7.1.1, Figure 8).
type Frame struct {
	Reply   bool  // which of the two keys
	Markers bool  // M: the sender requires Markers in what it receives
	CRC     bool  // C: the sender wants CRCs; one that does is enough
	Reject  bool  // R: the connection is refused; always false in a Request
	Rev     uint8 // revision of MPA, Rev1 or Rev2

	// HasEnhanced is bit S: Enhanced is in front of the private data. It
	// needs Rev2.
	HasEnhanced bool
	Enhanced    Enhanced

	// PrivateData is the upper layer's, without Enhanced: at most Room
	// octets. A parsed one aliases the octets parsed.
	PrivateData []byte
}

// Room returns the largest length of the frame's PrivateData, in octets: 512,
// or 508 with HasEnhanced. (Linux takes no more than 256 and 252.)
func (f Frame) Room() int {
	if f.HasEnhanced {
		return MaxPrivateData - EnhancedLen
	}
	return MaxPrivateData
}

// AppendTo appends the wire form of f to b. PrivateData longer than Room is a
// mistake of the caller, and panics.
func (f Frame) AppendTo(b []byte) []byte {
	if len(f.PrivateData) > f.Room() {
		panic("mpa: private data too long")
	}
	key, flags, n := requestKey, uint8(0), len(f.PrivateData)
	if f.Reply {
		key = replyKey
		flags |= bit(f.Reject, flagR)
	}
	flags |= bit(f.Markers, flagM) | bit(f.CRC, flagCRC) | bit(f.HasEnhanced, flagS)
	if f.HasEnhanced {
		n += EnhancedLen
	}
	b = append(b, key...)
	b = append(b, flags, f.Rev)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	if f.HasEnhanced {
		b = f.Enhanced.appendTo(b)
	}
	return append(b, f.PrivateData...)
}

func bit(set bool, flag uint8) uint8 {
	if set {
		return flag
	}
	return 0
}

// RequestLen checks the first HeaderLen octets of a Request and returns the
// length of the whole frame, in octets: what a reader takes from the stream
// before ParseRequest, and not an octet more, for FPDUs may follow. The error
// is one of those that wrap ErrFrame.
func RequestLen(b []byte) (int, error) { return frameLen(b, requestKey) }

// ReplyLen is RequestLen for a Reply. ErrInitiator says that the peer sent a
// Request, and so is an initiator as well (RFC 5044, Section 7.1.2, rule 8).
func ReplyLen(b []byte) (int, error) { return frameLen(b, replyKey) }

func frameLen(b []byte, key string) (int, error) {
	if len(b) < HeaderLen {
		return 0, fmt.Errorf("%w: %d of %d octets", ErrShort, len(b), HeaderLen)
	}
	if err := checkKey(string(b[:offFlags]), key); err != nil {
		return 0, err
	}
	if rev := b[offRev]; rev != Rev1 && rev != Rev2 {
		return 0, fmt.Errorf("%w %d", ErrRevision, rev)
	}
	n := int(binary.BigEndian.Uint16(b[offPD:]))
	if n > MaxPrivateData || isEnhanced(b) && n < EnhancedLen {
		return 0, fmt.Errorf("%w: %d octets", ErrPrivateData, n)
	}
	return HeaderLen + n, nil
}

func checkKey(got, want string) error {
	switch {
	case got == want:
		return nil
	case got == requestKey:
		return ErrInitiator
	case got == replyKey:
		return ErrResponder
	}
	return ErrKey
}

// isEnhanced tells whether S is set in a revision that knows it; to the first
// it is one of the reserved bits, which are not checked.
func isEnhanced(b []byte) bool { return b[offFlags]&flagS != 0 && b[offRev] >= Rev2 }

// ParseRequest decodes b, which is one whole Request. R is ignored.
func ParseRequest(b []byte) (Frame, error) { return parse(b, requestKey) }

// ParseReply decodes b, which is one whole Reply.
func ParseReply(b []byte) (Frame, error) { return parse(b, replyKey) }

func parse(b []byte, key string) (Frame, error) {
	n, err := frameLen(b, key)
	if err != nil {
		return Frame{}, err
	}
	switch {
	case len(b) < n:
		return Frame{}, fmt.Errorf("%w: %d of %d octets", ErrShort, len(b), n)
	case len(b) > n:
		return Frame{}, fmt.Errorf("%w: %d octets more than announced", ErrPrivateData, len(b)-n)
	}
	flags := b[offFlags]
	f := Frame{
		Reply:       key == replyKey,
		Markers:     flags&flagM != 0,
		CRC:         flags&flagCRC != 0,
		Rev:         b[offRev],
		HasEnhanced: isEnhanced(b),
		PrivateData: b[HeaderLen:],
	}
	f.Reject = f.Reply && flags&flagR != 0
	if f.HasEnhanced {
		f.Enhanced = parseEnhanced(f.PrivateData)
		f.PrivateData = f.PrivateData[EnhancedLen:]
	}
	return f, nil
}
