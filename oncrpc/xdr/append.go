package xdr

import "encoding/binary"

// zeros is the longest padding.
var zeros [3]byte

// Pad returns the number of zero bytes that follow n opaque bytes to make the total a
// multiple of four (RFC 4506, Section 3).
func Pad(n int) int { return -n & 3 }

// AppendUint32 appends an unsigned integer or an enumeration.
func AppendUint32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

// AppendUint64 appends an unsigned hyper integer.
func AppendUint64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// AppendBool appends a boolean.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return AppendUint32(b, 1)
	}
	return AppendUint32(b, 0)
}

// AppendFixed appends fixed-length opaque data with its padding.
func AppendFixed(b, data []byte) []byte {
	b = append(b, data...)
	return append(b, zeros[:Pad(len(data))]...)
}

// AppendOpaque appends variable-length opaque data: length, bytes, padding.
func AppendOpaque(b, data []byte) []byte {
	return AppendFixed(AppendUint32(b, uint32(len(data))), data)
}

// AppendString appends a string: length, bytes, padding. It does not validate s
// as text: names and paths need not be text.
func AppendString(b []byte, s string) []byte {
	b = AppendUint32(b, uint32(len(s)))
	b = append(b, s...)
	return append(b, zeros[:Pad(len(s))]...)
}
