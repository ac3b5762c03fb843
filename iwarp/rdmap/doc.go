// Package rdmap encodes and decodes what RDMAP puts into DDP segments
// (RFC 5040, RFC 7306): the control octet, the Invalidate STag, and the headers
// of RDMA Read Requests, Atomic Requests and Responses, and Terminate messages.
// It names the errors of all three layers as a Terminate message carries them.
//
//	message            queue   segment
//	Send and variants  QN 0    | DDP untagged, Invalidate STag or 0 | ULP payload
//	Immediate Data     QN 0    | DDP untagged | 8 octets
//	RDMA Read Request  QN 1    | DDP untagged | Read Request header, 28 octets
//	Atomic Request     QN 1    | DDP untagged | Atomic Request header, 52 octets
//	Terminate          QN 2    | DDP untagged | Terminate header, 4 to 52 octets
//	Atomic Response    QN 3    | DDP untagged | Atomic Response header, 12 octets
//	RDMA Write         tagged  | DDP tagged   | ULP payload
//	RDMA Read Response tagged  | DDP tagged   | ULP payload
//
// The package must not know memory, connections, or what an upper layer says.
//
// # Life of slices
//
// The headers of a parsed or built Terminate alias the octets that they were
// taken from. AppendTo copies. Nothing is retained.
package rdmap
