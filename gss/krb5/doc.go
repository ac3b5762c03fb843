// Package krb5 is the Kerberos mechanism of the GSS-API (RFC 4121) for acceptors,
// and the contexts of both ends. Its encryption types are AES with SHA-1 (RFC
// 3962) and AES with SHA-2 (RFC 8009), and none that is older. An initiator gets
// its keys elsewhere, and makes its end of the context from them.
//
//	initiator's token ─▶ Acceptor: keytab ─▶ ticket ─▶ authenticator ─▶ seen before?
//	                                                        │
//	                                         AP-REP ◀── fresh subkey ─▶ Context
//
// A Wrap token, encrypted in place in the room around the message:
//
//	before (32)             message        after (28 to 40)
//	┌────────┬────────────┬──────────────┬────────┬──────┐
//	│ header │ confounder │ message      │ header │ MAC  │
//	└────────┴────────────┴──────────────┴────────┴──────┘
//	  clear    ╰───────────── encrypted ────────╯
//
// A MIC token is a header and a MAC of the message and that header. Slices of
// callers are used during the call alone. A message or token may be scattered
// over any number of slices.
//
// The package must not know sockets, users, or RPC. It has no clock of its own.
package krb5
