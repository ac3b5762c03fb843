// Package wire has the messages between a mount and nfsrdma-gss, the helper that
// establishes one security context for one user.
//
//	mount                       nfsrdma-gss
//	  │── Request ──────────────────▶│  service, credential caches, or a keytab
//	  │◀───────────────────── Token ─│  for the server
//	  │── Token ────────────────────▶│  the server's reply
//	  │◀────────── Keys, or Failure ─│
//
// More Tokens follow if the server needs them. Instead of any reply the helper may send a
// Failure, which ends the exchange. A message consists of its length in four bytes, its
// kind in four bytes, and its fields in XDR. The length does not count itself, and is at
// most MaxMessage.
//
// The package must not know Kerberos, nor processes. Slices in a message that was read
// belong to the message.
package wire
