// Package server is the server side of delegation counters
// (docs/delegation.md). It runs a delegation.Grantor on an rpcrdma.Server's
// connections.
//
//	nfsserver ── a change ──▶ recall.Table ──── Recall ────▶ Keeper ── recall ──▶ ExtensionConn
//	          │                            ◀─── Return ─────   │    ◀─ returned ──
//	          └─ Prepare, Lease, Commit: ACQUIRE ──────────▶   └ Tick: leases, deadlines
//
// Changes are announced in a recall.Table, in which each grant, and each ACQUIRE
// in progress, is a Holder. A change continues when other clients' grants on its
// objects have been returned or have expired, and ACQUIREs have failed.
//
// A grant may depend on a lease from the file system (PendingAcquire.Lease).
// When the file system breaks that lease, the server recalls the grant. When
// the grant has ended, the server releases the lease before it returns the
// Holder, and so before any change to the object continues.
//
// A record on stable storage says that clients may hold grants (Recorder).
// After the next start, changes wait for one lease time, because a disconnected
// client trusts its cache for most of a lease.
//
// The package must not depend on NFS or on a file system.
package server
