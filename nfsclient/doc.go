// Package nfsclient is a client of NFS version 3 and MOUNT version 3 (RFC
// 1813) over any oncrpc.Caller, so that RDMA and TCP are the same to it.
//
//	FS     paths, symbolic links, directories, trees
//	 │  File   transfers of any length, cut to size, several calls in flight
//	 ▼   ▼
//	Client     the 22 procedures, one method each ──Exchange──▶ oncrpc.Caller
//	Mount      the MOUNT program                  ──Exchange──▶ oncrpc.Caller
//	MountSearch  where a server's MOUNT program answers
//
// All types are for use by many goroutines at once. A context that ends gives
// calls up. A transfer never does so on its own account: over RDMA, memory that
// is taken back too early can cost the connection.
//
// A server's refusal is an Error, which errors.Is compares with the statuses of
// package nfs3, with io/fs's errors and with errno values alike.
//
// # Life of slices
//
// The data of Read go straight into the caller's slice where the transport can
// place them there, and those of Write leave from it; neither is looked at
// after the method has returned. File handles and names in results belong to
// the caller. What a callback gets is valid until it returns.
//
// # What is stable when
//
// WriteAt and CopyFrom return without an error only when the data are on the
// server's stable storage. They write without waiting for it, then COMMIT, and
// write again what a server lost in between: its write verifier has changed
// then. CopyFrom keeps for that no more than a window of what it read.
//
//	read ─▶ WRITE … WRITE ─▶ COMMIT ─ same verifier? ─▶ let go
//	            half a window              └─ no: WRITE, stable, from memory
//
// A WriteBehind, for whom data come a little at a time and in any order, does
// the same: what its Write took is stable after Sync, and at the server after
// Flush. Budget bounds the memory of many.
//
// The package must not know transports, nor how one connects to a server.
package nfsclient
