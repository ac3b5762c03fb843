// Package client keeps what a client holds of a server's objects by package
// delegation: it asks for it, uses it, keeps its lease and gives it back, over the
// connections of one mount. docs/delegation.md is the specification.
//
//	           Object of a file, a directory
//	               │ Acquire, Open, Check, Close
//	               ▼
//	Set ──▶ Attachment ──▶ conn ── ACQUIRE, atomic operations, kind 2 ──▶ rpcrdma.ExtensionConn
//	 │       (by Pick of the handle)  ◀── replies, answers, kind 1 ──
//	 ▼
//	Config.Drop: nothing of the Object may be served from a cache any more
//
// Each connection has a delegation.Holder, and ends with it. Nothing is waited for
// but the answer to an atomic operation and the reply to an ACQUIRE, and either only
// for as long as a context lasts; what comes afterwards is accounted for all the
// same. Where nothing is held or asked for, nothing runs.
//
// # Life of slices
//
// The handle of an Object stays its owner's, and does not change. Octets of results
// are copied.
//
// The package must not know what is cached, nor NFS but for the numbers of the
// procedures that change something.
package client
