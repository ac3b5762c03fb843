package firstbytes

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Identify names the protocol that begins with b, of which the first 4 bytes
// distinguish most, and 16 an RPC call over TCP. It returns "" for an unknown one.
func Identify(b []byte) string {
	if len(b) < 4 {
		return ""
	}
	switch first := string(b[:4]); {
	case first == "MPA ":
		return "RDMA (MPA)"
	case slices.Contains([]string{"GET ", "HEAD", "POST", "PUT ", "OPTI", "PRI "}, first):
		return "HTTP"
	case first == "SSH-":
		return "SSH"
	case bytes.HasPrefix(b, []byte{0x16, 3}): // a handshake record
		return "TLS"
	case isCall(b):
		return "RPC over TCP"
	}
	return ""
}

// isCall reports whether b begins with a record's mark, which has the last-fragment
// bit, and with an RPC version 2 call (RFC 5531, Sections 9 and 11).
func isCall(b []byte) bool {
	return len(b) >= 16 && b[0]&0x80 != 0 && binary.BigEndian.Uint32(b[8:]) == 0 && binary.BigEndian.Uint32(b[12:]) == 2
}
