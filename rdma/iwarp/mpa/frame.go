package mpa

import (
	"encoding/binary"
	"fmt"
	"strings"
)

const (
	requestKey = "MPA ID Req Frame"
	replyKey   = "MPA ID Rep Frame"
)

// The flag byte. The other bits are sent as zero and not checked (RFC 5044,
// Section 7.1.1, Res).
const (
	flagM   = 0x80
	flagCRC = 0x40
	flagR   = 0x20
	flagS   = 0x10
)

// Offsets in a frame's header, in bytes.
const (
	offFlags = 16
	offRev   = 17
	offPD    = 18
)

// A Frame is an MPA Request or Reply Frame (RFC 5044, Section 7.1.1, Figure 8).
type Frame struct {
	Reply   bool  // selects the key
	Markers bool  // M: the sender requires Markers in the stream that it receives
	CRC     bool  // C: the sender requests CRCs; a request by either end suffices
	Reject  bool  // R: the connection is rejected; always false in a Request
	Rev     uint8 // MPA revision, Rev1 or Rev2

	// HasEnhanced is bit S: Enhanced precedes the private data. This requires
	// Rev2.
	HasEnhanced bool
	Enhanced    Enhanced

	// PrivateData is the upper layer's data, without Enhanced: at most
	// MaxPrivateDataLen bytes. In a parsed Frame it aliases the parsed bytes.
	PrivateData []byte
}

// MaxPrivateDataLen returns the maximum PrivateData length, in bytes: 512, or 508 with
// HasEnhanced. (Linux accepts no more than 256 and 252.)
func (f Frame) MaxPrivateDataLen() int {
	if f.HasEnhanced {
		return MaxPrivateData - EnhancedLen
	}
	return MaxPrivateData
}

// AppendTo appends f's wire form to b. It panics if PrivateData is longer than
// MaxPrivateDataLen.
func (f Frame) AppendTo(b []byte) []byte {
	if len(f.PrivateData) > f.MaxPrivateDataLen() {
		panic("mpa: private data too long")
	}
	key, flags, n := requestKey, uint8(0), len(f.PrivateData)
	if f.Reply {
		key = replyKey
		flags |= flagIf(f.Reject, flagR)
	}
	flags |= flagIf(f.Markers, flagM) | flagIf(f.CRC, flagCRC) | flagIf(f.HasEnhanced, flagS)
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

func flagIf(set bool, flag uint8) uint8 {
	if set {
		return flag
	}
	return 0
}

// RequestLen checks a Request's first HeaderLen bytes and returns the total
// frame length, in bytes. Before ParseRequest a reader must read exactly this
// length from the stream, since FPDUs may follow. The error wraps ErrFrame.
func RequestLen(b []byte) (int, error) { return frameLen(b, requestKey) }

// ReplyLen is like RequestLen, but for a Reply. ErrInitiator reports that the
// peer sent a Request, so that it is also an initiator (RFC 5044, Section
// 7.1.2, rule 8).
func ReplyLen(b []byte) (int, error) { return frameLen(b, replyKey) }

func frameLen(b []byte, key string) (int, error) {
	if len(b) < HeaderLen {
		return 0, fmt.Errorf("%w: %d of %d bytes", ErrShort, len(b), HeaderLen)
	}
	if err := checkKey(string(b[:offFlags]), key); err != nil {
		return 0, err
	}
	if rev := b[offRev]; rev != Rev1 && rev != Rev2 {
		return 0, fmt.Errorf("%w %d", ErrRevision, rev)
	}
	n := int(binary.BigEndian.Uint16(b[offPD:]))
	if n > MaxPrivateData || isEnhanced(b) && n < EnhancedLen {
		return 0, fmt.Errorf("%w: %d bytes", ErrPrivateData, n)
	}
	return HeaderLen + n, nil
}

// KeyLen is the length in bytes of the key that begins a start-up frame.
const KeyLen = len(requestKey)

// IsKeyPrefix reports whether a start-up frame may begin with b, which has at most KeyLen bytes.
func IsKeyPrefix(b []byte) bool {
	return strings.HasPrefix(requestKey, string(b)) || strings.HasPrefix(replyKey, string(b))
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

// isEnhanced reports whether S is set in a revision that defines S. In revision
// 1 it is a reserved bit, which is not checked.
func isEnhanced(b []byte) bool { return b[offFlags]&flagS != 0 && b[offRev] >= Rev2 }

// ParseRequest decodes b, which is one complete Request. R is ignored.
func ParseRequest(b []byte) (Frame, error) { return parseFrame(b, requestKey) }

// ParseReply decodes b, which is one complete Reply.
func ParseReply(b []byte) (Frame, error) { return parseFrame(b, replyKey) }

func parseFrame(b []byte, key string) (Frame, error) {
	n, err := frameLen(b, key)
	if err != nil {
		return Frame{}, err
	}
	switch {
	case len(b) < n:
		return Frame{}, fmt.Errorf("%w: %d of %d bytes", ErrShort, len(b), n)
	case len(b) > n:
		return Frame{}, fmt.Errorf("%w: %d bytes more than announced", ErrPrivateData, len(b)-n)
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
