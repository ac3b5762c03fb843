// Package client manages the delegations (package delegation) that a client
// holds. It acquires, uses, renews and returns delegations over one mount's
// connections. docs/delegation.md is the specification.
//
//	           Object for a file or directory
//	               │ Acquire, Open, Check, Close
//	               ▼
//	Set ──▶ Attachment ──▶ conn ── ACQUIRE, atomic operations, kind 2 ──▶ rpcrdma.ExtensionConn
//	 │       (by pick of the handle)  ◀── replies, answers, kind 1 ──
//	 ▼
//	Config.Drop: nothing of the Object may be served from a cache any more
//
// Each connection has a delegation.Holder, which ends with the connection.
// Callers wait only for the response to an atomic operation and for the reply
// to an ACQUIRE, and no longer than their context lasts. A response that
// arrives after the context has ended is still processed. While nothing is held
// or being acquired, no goroutine or timer runs.
//
// # Lifetime of slices
//
// An Object's handle belongs to its owner, and must not change. Results are
// copied.
//
// The package must not depend on the cache's content. Its only knowledge of NFS
// is the numbers of the procedures that change an object.
package client
