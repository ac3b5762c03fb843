// Package xdr writes and reads the external data representation of RFC 4506
// by hand: functions that append to a slice, and a Reader that walks over
// one. It is for the messages that every call pays for; nothing reflects and
// nothing allocates.
//
//	b = xdr.AppendUint32(b, count)      r := xdr.NewReader(b)
//	b = xdr.AppendOpaque(b, data)       count := r.Uint32()
//	                                    data := r.Opaque(limit) // aliases b
//	                                    if err := r.Err(); err != nil { … }
//
// The package must not know any protocol. What a Reader returns aliases its
// input and lives as long as that.
package xdr
