// Package packet encodes and decodes headers in the InfiniBand Architecture,
// volume 1: those for the unreliable services as RoCEv2 carries them, and those
// for raw datagrams.
//
//	RoCEv2:  IP │ UDP 4791 │ BTH │ DETH │ RETH │ ImmDt │ payload │ pad │ ICRC
//	                       12     8      16     4                0..3   4
//	raw:     LRH │ RWH or IPv6 header │ payload and pad │ VCRC
//	         8     4      40                              2
//
// A BTH's Opcode determines which of DETH, RETH and ImmDt follow. All integers
// are big-endian on the wire, except the two CRCs: the usual reflected
// algorithm's value, in little-endian order.
//
// Values that parse functions return alias the input. The package must not know
// sockets, clocks, or queue pairs.
package packet
