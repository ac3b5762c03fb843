// Package nfsclient is a client of NFS version 3 and MOUNT version 3 (RFC 1813)
// over any oncrpc.Caller. RDMA and TCP look the same to the package.
//
//	FS     paths, symbolic links, directories, trees
//	 │  File   transfers of any length, cut to size, several calls in flight
//	 ▼   ▼
//	Client     the 22 procedures, one method each ──Exchange──▶ oncrpc.Caller
//	Mount      the MOUNT program                  ──Exchange──▶ oncrpc.Caller
//	MountSearch  where a server's MOUNT program answers
//
// All types may be used by multiple goroutines at once. The end of a context
// abandons its calls. A transfer never abandons calls for another reason: over
// RDMA, memory that is taken back too early can cost the connection.
//
// A server's refusal is an Error. errors.Is compares it with the statuses of
// package nfs3, with io/fs's errors and with errno values alike.
//
// # Life of slices
//
// The data of Read go straight into the caller's slice if the transport can
// place them there, and the data of Write leave from the caller's slice.
// Neither slice is used after the method has returned. File handles and names
// in results belong to the caller. The arguments of a callback are valid until
// the callback returns.
//
// # Stable data
//
// WriteAt and CopyFrom return without an error only when the data are on the
// server's stable storage. They write without waiting for stable storage, then
// COMMIT, and write again any data that the server lost in between, which a
// changed write verifier shows. For that, CopyFrom keeps no more than a window
// of its input.
//
//	read ─▶ WRITE … WRITE ─▶ COMMIT ─ same verifier? ─▶ let go
//	            half a window              └─ no: WRITE, stable, from memory
//
// A WriteBehind does the same for data that come a little at a time and in any
// order: the data of its Write are stable after Sync, and at the server after
// Flush. A Budget bounds the memory of many WriteBehinds.
//
// The package must not know transports, nor how to connect to a server.
package nfsclient
