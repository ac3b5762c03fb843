// Package wire has the messages between a mount and nfsrdma-gss, the helper that
// makes one security context for one user.
//
//	mount                       nfsrdma-gss
//	  │── Request ──────────────────▶│  service, credential caches, or a keytab
//	  │◀───────────────────── Token ─│  for the server
//	  │── Token ────────────────────▶│  the server's answer
//	  │◀────────── Keys, or Failure ─│
//
// More Tokens pass if the server wants more. A Failure ends the exchange in the
// place of each answer. A message is its length in four bytes, its kind in four
// bytes, and its fields in XDR. The length does not count itself, and is at most
// MaxMessage.
//
// The package must not know Kerberos, nor processes. Slices of a message that was
// read belong to the message.
package wire
