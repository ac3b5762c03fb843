// Package krb5 is the Kerberos mechanism for the GSS-API (RFC 4121): acceptors, and
// contexts for both ends. It supports AES with SHA-1 (RFC 3962) and AES with SHA-2 (RFC
// 8009), and no older encryption types. An initiator gets its keys elsewhere, and creates
// its end of the context from them.
//
//	initiator's token ─▶ Acceptor: keytab ─▶ ticket ─▶ authenticator ─▶ seen before?
//	                                                        │
//	                                         AP-REP ◀── fresh subkey ─▶ Context
//
// A Wrap token, encrypted in place in the space around the message:
//
//	before (32)             message        after (28 to 40)
//	┌────────┬────────────┬──────────────┬────────┬──────┐
//	│ header │ confounder │ message      │ header │ MAC  │
//	└────────┴────────────┴──────────────┴────────┴──────┘
//	  clear    ╰───────────── encrypted ────────╯
//
// A MIC token is a header and a MAC over the message and that header. Callers' slices are
// used only during the call. A message or token may be scattered over any number of
// slices.
//
// The package must not know sockets, users, or RPC. It has no clock of its own.
package krb5
