package cmpriv

import (
	"bytes"
	"encoding/binary"
)

// Len is the version 1 message length, in bytes.
const Len = 8

// The sizes that a message can carry, in bytes (RFC 8797, Section 4.2).
const (
	MinSize = 1024
	MaxSize = 262144
)

const (
	identifier = 0xf6ab0e18
	version    = 1
	flagR      = 0x01 // the other seven bits are sent as zero and ignored
	unit       = 1024 // size unit, in bytes; the wire holds the number of units less 1
)

// wireIdentifier is the identifier's wire form.
var wireIdentifier = binary.BigEndian.AppendUint32(nil, identifier)

// A Message is the version 1 private data (RFC 8797, Section 4).
type Message struct {
	// RemoteInvalidation (R) means that the sender accepts a Send With
	// Invalidate for any memory that it advertises.
	RemoteInvalidation bool

	SendSize int // maximum Send length that the sender sends, in bytes
	RecvSize int // maximum Send length that the sender accepts, in bytes
}

// Default applies to a peer that sent no message (RFC 8797, Section 5.1).
var Default = Message{SendSize: MinSize, RecvSize: MinSize}

// AppendTo appends m's wire form to b. A size that is not a multiple of 1024
// bytes is rounded down, and then clamped to the range that can be sent.
func (m Message) AppendTo(b []byte) []byte {
	var flags uint8
	if m.RemoteInvalidation {
		flags = flagR
	}
	b = append(b, wireIdentifier...)
	return append(b, version, flags, encodeSize(m.SendSize), encodeSize(m.RecvSize))
}

// Parse looks for a message at any offset in the private data b. It returns
// false, and Default, if there is none, or if the message is truncated or its
// version is not 1: a later format would have its own rules (RFC 8797, Sections
// 5.2 and 6).
func Parse(b []byte) (m Message, ok bool) {
	at := bytes.Index(b, wireIdentifier)
	if at < 0 || len(b)-at < Len || b[at+4] != version {
		return Default, false
	}
	b = b[at : at+Len]
	return Message{
		RemoteInvalidation: b[5]&flagR != 0,
		SendSize:           decodeSize(b[6]),
		RecvSize:           decodeSize(b[7]),
	}, true
}

func encodeSize(n int) uint8 { return uint8(min(max(n, MinSize), MaxSize)/unit - 1) }

func decodeSize(v uint8) int { return (int(v) + 1) * unit }
