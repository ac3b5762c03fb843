// Package server is the server's side of delegation counters
// (docs/delegation.md). It runs a delegation.Grantor on the connections of an
// rpcrdma.Server.
//
//	nfsserver ── Blind, Begin, Wait, Done: a change ──▶ Keeper ── recall ──▶ ExtensionConn
//	          ── Prepare, Lease, Commit: ACQUIRE ─────▶   │    ◀─ returned ──
//	                                                      └ Tick: leases, deadlines
//
// While clients hold nothing, a change costs two additions to one word.
// Otherwise a change names its objects, and continues when the grants of other
// clients on those objects have been returned or have ended.
//
// A grant may depend on a lease that the file system has given for the grant
// (Asking.Lease). When the file system breaks that lease, the server recalls
// the grant. When the grant has ended, the server releases the lease before any
// change of the object continues.
//
// A file outlives the server and says that clients may hold grants
// (Config.Marker). After the next start, changes wait for a lease, because a
// client that was cut off trusts its cache for most of a lease.
//
// The package must not know NFS, nor a file system.
package server
