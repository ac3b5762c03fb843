// Package lockserver is the lock manager of NFS version 3 on the server's side: the
// Network Lock Manager (NLM), versions 1, 3 and 4 (RFC 1813, Appendix II; X/Open
// XNFS, Version 3W), and the Network Status Monitor (NSM) that goes with it.
//
//	LOCK ─▶ realm: file, caller ─▶ nfs4state: the locks of all versions
//	                                   │ not free: BLOCKED, the owner waits
//	GRANTED ◀── host: one line to ◀────┘ Tell, when it is the owner's turn
//	             each client's host
//
// The locks, the queues of waiting owners and the records on stable storage are
// those of package nfs4state, where a client is a Machine: its address, the
// address at which it calls, and its name. So clients of all versions and processes
// of the server's host are in each other's way, wait in one queue, and share one
// grace period.
//
// # Grants
//
// A waiting owner gets the lock first. The server then calls GRANTED, again and
// again, until the client answers: if it denies, or has not answered for long, the
// server takes the lock back. CANCEL and UNLOCK may come at any moment of that. A
// grant therefore has exactly one end, which Server.mu guards.
//
// # Hosts
//
// The server calls no other address than that of the client, at the port that the
// client's rpcbind names, and from the address that the client has called. A
// goroutine for each host makes these calls, one after the other; it ends soon
// after the last.
//
// # Restarts
//
// After a restart the server sends NOTIFY to all Machines that had locks, which
// reclaim them. A NOTIFY from a host frees the locks of that host alone: it must
// come from the host's address.
//
// The package must not know the forms of file handles, nor how locks are kept.
package lockserver
