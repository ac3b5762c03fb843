// Package tickets gives each local user of a mount a security context of Kerberos
// of their own. A helper process, nfsrdma-gss, makes a context as the user, from
// that user's credential cache.
//
//	call of user 1001 ─▶ Callers ─▶ rpcsec.Client of 1001 ─▶ signed call ─▶ Caller
//	                                      │ no context yet
//	                                      ▼
//	                     Helper: one attempt at a time for a user
//	                                      │ tickets/wire
//	                                      ▼
//	                     nfsrdma-gss, as 1001 ◀── tickets ── cache, KDC
//
// A context belongs to a user, whatever the groups are with which a program of that
// user runs: the server knows the principal alone. Each attempt is a new process
// and a new AP-REQ, because a server refuses one that it has seen. A user without
// a ticket costs a process in each failureLife, not in each call.
//
// The package must not know FUSE or NFS, nor how tickets are made.
package tickets
