// Nfsrdma-gss makes one security context of Kerberos for the user that runs it.
// mountrdma starts it, as the user whose program needs the context, and takes the
// keys.
//
//	mountrdma ◀── stdin, stdout: tickets/wire ──▶ nfsrdma-gss ──▶ libgssapi_krb5.so.2 ──▶ caches, KDC
//
// The program uses MIT's library, which knows all kinds of credential caches, and
// loads it at run time. So a fault of the library ends one attempt and not a mount,
// and all other programs of this module need no C library.
//
// A name of a server is used as it was typed: neither forward nor reverse DNS
// turns it into another, for an attacker may answer.
package main
