// Package rdmap encodes and decodes the RDMAP parts in DDP segments (RFC 5040,
// RFC 7306): the control byte, the Invalidate STag, and the headers for RDMA
// Read Requests, Atomic Requests and Responses, and Terminate messages. It
// defines all three layers' errors as a Terminate message carries them.
//
//	message            queue   segment
//	Send and variants  QN 0    | DDP untagged, Invalidate STag or 0 | ULP payload
//	Immediate Data     QN 0    | DDP untagged | 8 bytes
//	RDMA Read Request  QN 1    | DDP untagged | Read Request header, 28 bytes
//	Atomic Request     QN 1    | DDP untagged | Atomic Request header, 52 bytes
//	Terminate          QN 2    | DDP untagged | Terminate header, 4 to 52 bytes
//	Atomic Response    QN 3    | DDP untagged | Atomic Response header, 12 bytes
//	RDMA Write         tagged  | DDP tagged   | ULP payload
//	RDMA Read Response tagged  | DDP tagged   | ULP payload
//
// The package must not know memory, connections, or upper-layer messages.
//
// # Slice ownership
//
// The headers in a parsed or built Terminate alias the input. AppendTo copies.
// Nothing is retained.
package rdmap
