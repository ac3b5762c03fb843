// Package nfs4client is a requester of NFS version 4, minor versions 1 and 2
// (RFC 8881, RFC 7862): sessions, COMPOUNDs, and operations on files. The
// package is not a mount: Session caches nothing, and holds no delegation.
//
//	Session.Open, File.Read, …          one file operation
//	      │
//	Compound ── builds the operations, checks and decodes the results
//	      │
//	Session.Do ── takes a slot, puts SEQUENCE in front, sends, and sends again
//	      │
//	Conn ── one connection, over RDMA or TCP (oncrpc.Caller)
//
// # Exactly once
//
// A call whose connection ends is sent again over the next connection, in the
// same slot and with the same sequence ID: the server executes the call once,
// and answers from its reply cache (RFC 8881, Section 2.10.6). A call that its
// caller abandons leaves its slot uncertain. Before the next use of that slot,
// a SEQUENCE alone finds out which sequence ID the server expects.
//
// # Recovery
//
// If the server has lost the session, Session makes another session, with a new
// client ID if that is lost as well, for instance after a restart. Session then
// reclaims the open files with their locks and sends RECLAIM_COMPLETE. No server can tell
// whether the server executed a change before losing the session. Such a call,
// if it may have arrived, fails with ErrUncertain. All others are sent again.
//
// # No backchannel
//
// Session makes no offer to take callbacks: CREATE_SESSION binds the connection
// to the fore channel alone, and OPEN wants no delegation. A server therefore
// has nothing to recall. A call of a server that calls nevertheless is not
// answered with a lie: the transports drop the call, because Conn serves
// nothing.
//
// # Hostile servers
//
// Each length and count in a reply is checked, the operations must be the
// operations of the call in their order, and data must fit into the caller's
// memory. A reply that violates this is ErrReply.
//
// The package must not know transports: the caller brings the connections.
package nfs4client
