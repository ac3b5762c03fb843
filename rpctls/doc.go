// Package rpctls is RPC with TLS (RFC 9289): connections that carry calls of ONC
// RPC are encrypted by TLS 1.3, and their ends show certificates.
//
//	client                                    server
//	  │── NULL, credential AUTH_TLS ───────────▶│ 1  in clear, no other call is under way
//	  │◀── accepted, verifier "STARTTLS" ───────│
//	  │◀═══ TLS handshake ═════════════════════▶│ 2  certificates are judged by both ends
//	  │◀═══ records of RPC inside of TLS ══════▶│ 3
//
// A Server answers the probe and the handshake (oncrpc.Guard), and a Client makes
// them. Their connections are a Conn, which fills TLS records from several slices
// and stays whole if a deadline interrupts a write. Below MPA the handshake begins
// with the first byte, without a probe.
//
// If that is wanted and possible, the kernel gets the keys after the handshake, and makes
// and opens the records: the bytes of RPC then go to the TCP socket, and come from it, as
// those in clear do.
//
// Certificates, keys, authorities and revocation lists come from files, which are
// read again when they change. A set with a fault is not taken: the one before
// stays. A Server judges the certificates of its running connections again when
// authorities or lists have changed.
//
// A certificate names a host. The package must not know users, exports, programs
// or chunks, and nothing may take the name of a host for that of a user (RFC 9289,
// Section 4.2).
package rpctls
