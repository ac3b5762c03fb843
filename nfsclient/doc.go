// Package nfsclient is a client for NFS version 3 and MOUNT version 3 (RFC
// 1813) over any oncrpc.Caller. RDMA and TCP look the same to the package.
//
//	FS     paths, symbolic links, directories, trees
//	 │  File   transfers of any length, cut to size, several calls in flight
//	 ▼   ▼
//	Client     the 22 procedures, one method each ──Exchange──▶ oncrpc.Caller
//	Mount      the MOUNT program                  ──Exchange──▶ oncrpc.Caller
//	MountSearch  where a server's MOUNT program answers
//
// All types are safe for concurrent use. When a context ends, its calls are
// abandoned. Transfers never abandon calls for another reason: over RDMA,
// memory that is reclaimed too early can cost the connection.
//
// When a server rejects a call, the error is an Error. errors.Is compares it
// with package nfs3's statuses, with io/fs's errors and with errno values.
//
// # Lifetime of slices
//
// Read places data directly in the caller's slice if the transport can, and
// Write sends data from the caller's slice. Neither slice is used after the
// method has returned. File handles and names in results belong to the caller.
// A callback's arguments are valid until the callback returns.
//
// # Stable data
//
// WriteAt and CopyFrom return without an error only when the data are on the
// server's stable storage. They send unstable WRITEs, then COMMIT, and rewrite
// any data that the server lost in between, as a changed write verifier shows.
// To do so, CopyFrom keeps at most a window of its input.
//
//	read ─▶ WRITE … WRITE ─▶ COMMIT ─ same verifier? ─▶ release
//	            half a window              └─ no: WRITE, stable, from memory
//
// A WriteBehind does the same for data that arrive in small parts and in any
// order: written data are at the server after Flush, and stable after Sync. A
// Budget bounds the memory of many WriteBehinds.
//
// The package must not depend on a transport, or on how to connect to a server.
package nfsclient
