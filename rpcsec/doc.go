// Package rpcsec is RPCSEC_GSS version 1 (RFC 2203): calls and replies of ONC RPC
// that a context of the GSS-API signs or encrypts.
//
// A Server stands before all other Services, so that they see plain calls: a
// retransmission has a new sequence number, and so another credential and
// verifier, but the same plain arguments.
//
//	transport ─▶ credential ─▶ window, verifier ─▶ arguments ─▶ plain call ─▶ Service
//	                 │              │       │           │                        │
//	            denied, cut ◀───────┴───────┘     GARBAGE_ARGS             plain reply
//	                                                    │                        │
//	transport ◀──────────────────────────────────── verifier, results ◀──────────┘
//
// Everything happens in the memory of the message: the plain header takes the end
// of the signed one's room, and the reply grows where it was made, in front of its
// results and behind them. Hence a mechanism's room before an encrypted message
// must be a multiple of four bytes.
//
// A Client is a Caller in front of another. It makes a context when the first call
// comes, and signs each transmission of a call anew. A call that was repeated has
// several numbers, of which the reply may answer any.
//
//	Call ─▶ context ─▶ Caller ─▶ AppendCall ─▶ Sent ═══▶ server
//	                     ▲     (number, signature)          │
//	results ◀── Open ────┴──────────────◀═══════════════════┘
//
// A BackContext has a server call its client by a context of the client's: a Caller as
// that of a Client, but with the acceptor's end.
//
// A call with a sequence number that was seen gets no answer. On a reliable
// connection its client would wait for ever, so the connection ends (RFC 8881,
// Section 2.9.2).
//
// The package must not know any mechanism, nor users, programs, exports, sockets
// or chunks. It knows that results may be carried apart, and forbids that for
// those that it has signed or encrypted (RFC 8166, Section 8.2.2.3).
package rpcsec
