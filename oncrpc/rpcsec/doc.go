// Package rpcsec is RPCSEC_GSS version 1 (RFC 2203): ONC RPC calls and replies that a
// GSS-API context signs or encrypts.
//
// A Server precedes all other Services, so that they see plain calls: a retransmission
// has a new sequence number, and so another credential and verifier, but the same plain
// arguments.
//
//	transport ─▶ credential ─▶ window, verifier ─▶ arguments ─▶ plain call ─▶ Service
//	                 │              │       │           │                        │
//	            denied, cut ◀───────┴───────┘     GARBAGE_ARGS             plain reply
//	                                                    │                        │
//	transport ◀──────────────────────────────────── verifier, results ◀──────────┘
//
// All this is done in place: the plain header overwrites the end of the signed one, and
// the reply grows before and after its results. Therefore, the space that a mechanism
// needs before an encrypted message must be a multiple of four bytes.
//
// A Client is a Caller in front of another. It establishes a context at the first call,
// and signs each transmission anew. A retransmitted call has several sequence numbers,
// and the reply may sign any of them.
//
//	Call ─▶ context ─▶ Caller ─▶ AppendCall ─▶ Sent ═══▶ server
//	                     ▲     (number, signature)          │
//	results ◀── Open ────┴──────────────◀═══════════════════┘
//
// A BackContext lets a server call its client with the client's context: it signs calls
// as a Client does, but with the acceptor's end.
//
// A call with a sequence number that was seen before gets no reply. On a reliable
// connection its client would wait forever, so the server closes the connection (RFC
// 8881, Section 2.9.2).
//
// The package must not know any mechanism, nor users, programs, exports, sockets or
// chunks. It knows that results may be sent separately, and forbids that for those that
// it has signed or encrypted (RFC 8166, Section 8.2.2.3).
package rpcsec
