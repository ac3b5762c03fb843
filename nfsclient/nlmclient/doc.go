// Package nlmclient holds an NFS version 3 mount's locks on its server, with
// the Network Lock Manager protocol (package nlm4).
//
//	fusefs ─▶ Client: Lock, Unlock, Test, Release
//	            │ lockTable: each owner's locks, and waiting requests in order
//	            ▼
//	          line ──NLM──▶ server        over the NFS connection,
//	            ▲             │           or over TCP, found by the server's rpcbind
//	            │             ▼
//	         Callback ◀──GRANTED          at a port registered with our rpcbind
//
// If several requests of this mount conflict, one at a time waits on the
// server; the others wait in the client, in order. A GRANTED call tells a
// request that the lock may be free; otherwise the request polls. In both cases
// the request has the lock only once the server has replied to its LOCK with
// LCK_GRANTED, so a false, late or repeated GRANTED only causes one more call.
//
// A call whose caller is interrupted continues: the Client then restores the
// locks on the server to those in the table. An UNLOCK is repeated until the
// server has replied. Calls for the same owner and file are sent one at a time.
//
// When the connection to the server has been replaced, the server may have
// restarted and lost all locks: the Client then reclaims each of them. While it
// holds locks, it sends calls periodically, so that it notices a restart within
// a small part of the grace period. A lock that another client has acquired
// since is lost, which OnLost reports.
//
// If the process exits without Close, its locks remain on the server. A file
// lists them, and the next Client with the same file releases them.
//
// The package must not depend on FUSE, or on how a program's files are cached.
package nlmclient
