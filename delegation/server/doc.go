// Package server is the server's side of delegation counters (docs/delegation.md): it
// runs a delegation.Grantor on the connections of an rpcrdma.Server.
//
//	nfsserver ── Blind, Begin, Wait, Done: a change ──▶ Keeper ── recall ──▶ ExtensionConn
//	          ── Prepare, Lease, Commit: ACQUIRE ─────▶   │    ◀─ returned ──
//	                                                      └ Tick: leases, deadlines
//
// Where clients hold nothing, a change costs two additions to one word. Where they do,
// it names its objects, and goes on when all that is held of them by others has come
// back, or has ended without that.
//
// A grant may stand on a lease that the file system has given for it (Asking.Lease): it
// is recalled when the lease is broken, and the lease is released when the grant has
// ended, before any change of the object goes on.
//
// A file says, over the end of the server, that clients may hold something (Config.Marker):
// after the next start, changes wait for a lease, since a client that was cut off trusts
// its cache for most of one.
//
// The package must not know NFS, nor a file system.
package server
