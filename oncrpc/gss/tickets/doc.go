// Package tickets gives each local user of a mount their own Kerberos security context. A
// helper process, nfsrdma-gss, establishes a context as the user, from that user's
// credential cache.
//
//	call by user 1001 ─▶ Callers ─▶ rpcsec.Client of 1001 ─▶ signed call ─▶ Caller
//	                                      │ no context yet
//	                                      ▼
//	                     Helper: one attempt at a time for a user
//	                                      │ oncrpc/gss/tickets/wire
//	                                      ▼
//	                     nfsrdma-gss, as 1001 ◀── tickets ── cache, KDC
//
// A context belongs to a user, whatever groups that user's programs run with: the server
// knows only the principal. Each attempt is a new process and a new AP-REQ, because a
// server rejects one that it has seen. A user without a ticket costs a process in each
// failureLifetime, not in each call.
//
// The package must not know FUSE or NFS, nor how tickets are obtained.
package tickets
