// Package mem is a file system in memory, as a vfs.FS: for trying out, for
// scratch, and for tests that want one which does all that a file system can.
//
//	handle ──▶ node ─┬─ pages   of a file: those that were written, in clusters
//	                 ├─ names   of a directory, in the order they were made
//	                 └─ target  of a symbolic link
//
// It does what Linux's tmpfs does: users and groups are told apart by modes,
// with NFS's two departures (RFC 1813, Section 4.4); there are hard links,
// special files and holes. There are no access control lists.
//
// All it holds counts against Options.Size, whoever made it, and where that is
// reached there is ENOSPC: no client can take more memory of the host. It ends
// with the process; a handle of an earlier FS is ESTALE.
//
// One lock guards everything: reads go beside each other. Attributes around a
// change are read under it. Slices belong to the caller; Entry.Name lives during
// the call of fn.
//
// The package must not know RPC, XDR or exports.
package mem
