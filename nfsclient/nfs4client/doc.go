// Package nfs4client is a client for NFSv4, minor versions 1 and 2 (RFC 8881,
// RFC 7862): sessions, COMPOUNDs, and file operations. The package is not a
// mount: Session caches nothing, and holds no delegations.
//
//	Session.Open, File.Read, …          one file operation
//	      │
//	Compound ── builds the operations, checks and decodes the results
//	      │
//	Session.Do ── acquires a slot, prepends SEQUENCE, sends, and retransmits
//	      │
//	Conn ── one connection, over RDMA or TCP (oncrpc.Caller)
//
// # Exactly once
//
// A call whose connection is lost is sent again over the next connection, in
// the same slot and with the same sequence ID: the server executes the call
// once, and replies from its reply cache (RFC 8881, Section 2.10.6). A call
// that its caller abandons leaves its slot uncertain. Before the next use of
// that slot, a single SEQUENCE resynchronizes its sequence ID. An OPEN is not
// abandoned, unless its connection is lost too: a goroutine waits for the reply,
// and closes the file.
//
// # Recovery
//
// If the server has lost the session, Session creates another, with a new
// client ID if that is lost as well, for instance after a restart. Session then
// reclaims the open files with their locks and sends RECLAIM_COMPLETE. A server
// cannot tell whether it executed a change before it lost the session. If such
// a call may have arrived, it fails with ErrUncertain. All other calls are sent
// again.
//
// # No backchannel
//
// Session does not accept callbacks: CREATE_SESSION binds the connection only
// to the fore channel, and OPEN requests no delegation. A server therefore has
// nothing to recall. If a server sends a call nevertheless, the transport drops
// it without a reply, because Conn serves no program.
//
// # Hostile servers
//
// Each length and count in a reply is checked, the operations must match the
// call's in order, and data must fit into the caller's memory. For a reply that
// violates this, the error is ErrReply.
//
// The package must not depend on a transport: the caller provides the
// connections.
package nfs4client
