// Package rpctls is RPC with TLS (RFC 9289): connections for ONC RPC are encrypted with
// TLS 1.3, and their ends present certificates.
//
//	client                                    server
//	  │── NULL, credential AUTH_TLS ───────────▶│ 1  unencrypted, no other call is in flight
//	  │◀── accepted, verifier "STARTTLS" ───────│
//	  │◀═══ TLS handshake ═════════════════════▶│ 2  both ends verify certificates
//	  │◀═══ RPC records inside TLS ═══════════▶│ 3
//
// A Client starts the probe and the handshake, and a Server responds (oncrpc.Guard).
// Their connections are Conns, which fill TLS records from several slices and stay usable
// if a deadline interrupts a write. Below MPA the handshake starts with the first byte,
// without a probe.
//
// If that is configured and possible, the kernel gets the keys after the handshake, and
// encrypts and decrypts the records: RPC bytes are then written to the TCP socket, and
// read from it, as if they were unencrypted.
//
// Certificates, keys, authorities and revocation lists come from files, which are read
// again when they change. A faulty set is ignored, and the previous one remains in use.
// When authorities or lists have changed, a Server verifies its clients' certificates
// again.
//
// A certificate identifies a host. The package must not know users, exports, programs or
// chunks, and nothing may treat a host's name as a user's (RFC 9289, Section 4.2).
package rpctls
