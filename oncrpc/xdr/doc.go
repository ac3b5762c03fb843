// Package xdr encodes and decodes the external data representation (RFC 4506), with
// functions that append to a slice and a Reader that reads from a slice. Because it is
// used for every call, it uses no reflection and does not allocate.
//
//	b = xdr.AppendUint32(b, count)      r := xdr.NewReader(b)
//	b = xdr.AppendOpaque(b, data)       count := r.Uint32()
//	                                    data := r.Opaque(limit) // aliases b
//	                                    if err := r.Err(); err != nil { … }
//
// The package must not know any protocol. Slices that a Reader returns alias
// its input and are valid as long as the input.
package xdr
