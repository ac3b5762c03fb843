// Package server is the server side of delegation counters
// (docs/delegation.md). It runs a delegation.Grantor on an rpcrdma.Server's
// connections.
//
//	nfsserver ── a change ──▶ recall.Table ── BeginChange ──▶ Keeper ── recall ──▶ ExtensionConn
//	          ── Prepare, Lease, Commit: ACQUIRE ───────────▶   │    ◀─ returned ──
//	                                                            └ Tick: leases, deadlines
//
// Changes are announced in a recall.Table, in which the Keeper counts the objects
// that clients hold, or ACQUIRE. The Table calls the Keeper for these objects
// only. A change continues when other clients' grants on its objects have been
// returned or have expired.
//
// A grant may depend on a lease from the file system (PendingAcquire.Lease).
// When the file system breaks that lease, the server recalls the grant. When
// the grant has ended, the server releases the lease before any change to the
// object continues.
//
// A marker file, which survives the server, says that clients may hold grants
// (Config.Marker). After the next start, changes wait for one lease time,
// because a disconnected client trusts its cache for most of a lease.
//
// The package must not depend on NFS or on a file system.
package server
