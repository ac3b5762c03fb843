// Nfsrdma-gss establishes one Kerberos security context for the user who runs it.
// mountrdma starts it as the user whose program needs the context, and receives the
// keys.
//
//	mountrdma ◀── stdin, stdout: oncrpc/gss/tickets/wire ──▶ nfsrdma-gss ──▶ libgssapi_krb5.so.2 ──▶ caches, KDC
//
// The program uses MIT's library, which supports all kinds of credential caches, and
// loads it at run time. A crash of the library ends one attempt instead of the mount,
// and the other programs of this module need no C library.
//
// Server names are used as typed. They are not canonicalized by DNS, whose replies an
// attacker may forge.
package main
