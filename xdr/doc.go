// Package xdr writes and reads the external data representation of RFC 4506 by
// hand, with functions that append to a slice and a Reader that walks over a
// slice. It serves messages that every call pays for: nothing uses reflection
// and nothing allocates.
//
//	b = xdr.AppendUint32(b, count)      r := xdr.NewReader(b)
//	b = xdr.AppendOpaque(b, data)       count := r.Uint32()
//	                                    data := r.Opaque(limit) // aliases b
//	                                    if err := r.Err(); err != nil { … }
//
// The package must not know any protocol. Slices that a Reader returns alias
// its input and are valid as long as the input.
package xdr
