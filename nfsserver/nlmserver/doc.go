// Package nlmserver implements the lock manager of an NFSv3 server: the Network
// Lock Manager (NLM), versions 1, 3 and 4 (RFC 1813, Appendix II; X/Open XNFS,
// Version 3W), and the Network Status Monitor (NSM) that goes with it.
//
//	LOCK ─▶ realm: file, caller ─▶ nfs4state: the locks of all versions
//	                                   │ not free: BLOCKED, the owner waits
//	GRANTED ◀── host: one line to ◀────┘ Tell, when it is the owner's turn
//	             each client's host
//
// Package nfs4state holds the locks, the queues of waiting owners and the records
// on stable storage. There a client is a Machine: its address, the server address
// that it calls, and its name. So clients of all NFS versions and processes on the
// server's host exclude each other, wait in one queue, and share one grace period.
//
// # Grants
//
// A waiting owner first gets the lock. Then the server repeats GRANTED until the
// client replies: if the client rejects the lock, or does not reply for grantTime,
// the server releases it. CANCEL and UNLOCK may arrive at any time. Therefore a
// grant ends exactly once; Server.mu guards that.
//
// # Hosts
//
// The server calls only the client's address, at the port that the client's
// rpcbind returns, and from the address that the client has called. One goroutine
// per host sends these calls, one at a time; it exits soon after the last.
//
// # Restarts
//
// After a restart the server sends NOTIFY to all Machines that had locks, which
// reclaim them. A NOTIFY from a host releases only that host's locks: it must
// come from the host's address.
//
// The package must not know the format of file handles, nor how locks are
// stored.
package nlmserver
