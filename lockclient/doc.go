// Package lockclient keeps the locks of a mount of NFS version 3 at its server,
// by the Network Lock Manager (package nlm4).
//
//	fusefs ─▶ Client: Lock, Unlock, Test, Release
//	            │ table: what each owner holds, and who waits in which order
//	            ▼
//	          line ──NLM──▶ server        over the connection of the NFS calls,
//	            ▲             │           or over TCP, by the server's rpcbind
//	            │             ▼
//	         Callback ◀──GRANTED          at a port that our rpcbind names
//
// Of the waiters of this mount whose ranges conflict, one at a time waits at the
// server; the others wait here, in their order. A waiter learns by GRANTED that
// the lock may be free, and otherwise asks again after a time. Either way the
// waiter has the lock only once the server has answered its LOCK with GRANTED, so
// a false, late or repeated GRANTED has no effect but one more call.
//
// A call whose caller is interrupted goes on without the caller: the Client then
// brings the server back to what the table says. An UNLOCK is repeated until the
// server has answered. All calls for one owner of one file take turns.
//
// When the connection to the server was replaced, the server may have restarted,
// and may have forgotten all locks: the Client then claims each of them again.
// While it holds locks it calls the server at times, so that it notices within a
// small part of a grace period. A lock that another client has got meanwhile is
// lost; OnLost tells.
//
// If the process ends without Close, its locks stay at the server. Their list
// stays in a file, and the next Client with the same file unlocks them.
//
// The package must not know FUSE, nor how a program's files are cached.
package lockclient
