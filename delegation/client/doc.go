// Package client manages the delegations (package delegation) that a client
// holds. It acquires, uses, renews and returns delegations over the connections
// of one mount. docs/delegation.md is the specification.
//
//	           Object of a file, a directory
//	               │ Acquire, Open, Check, Close
//	               ▼
//	Set ──▶ Attachment ──▶ conn ── ACQUIRE, atomic operations, kind 2 ──▶ rpcrdma.ExtensionConn
//	 │       (by pick of the handle)  ◀── replies, answers, kind 1 ──
//	 ▼
//	Config.Drop: nothing of the Object may be served from a cache any more
//
// Each connection has a delegation.Holder, and the Holder ends with its
// connection. Callers wait only for the answer to an atomic operation and for
// the reply to an ACQUIRE, each no longer than a context lasts. An answer that
// arrives after the context ends is still accounted for. While nothing is held
// or asked for, nothing runs.
//
// # Life of slices
//
// The handle of an Object remains its owner's, and must not change. Bytes of
// results are copied.
//
// The package must not know the content of the cache. Its only knowledge of NFS
// is the numbers of the procedures that change an object.
package client
