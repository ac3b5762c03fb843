// Package packet turns the headers of the InfiniBand Architecture, volume 1,
// into values and back: those of the unreliable services as RoCEv2 carries
// them, and those of raw datagrams.
//
//	RoCEv2:  IP │ UDP 4791 │ BTH │ DETH │ RETH │ ImmDt │ payload │ pad │ ICRC
//	                       12     8      16     4                0..3   4
//	raw:     LRH │ RWH or IPv6 header │ payload and pad │ VCRC
//	         8     4      40                              2
//
// The Opcode of a BTH says which of DETH, RETH and ImmDt follow. All integers
// are big-endian on the wire; the two CRCs are the little-endian bytes of the
// value that the usual reflected algorithm gives.
//
// Parse functions return what aliases their input. The package must not know
// sockets, clocks, or which queue pairs there are.
package packet
