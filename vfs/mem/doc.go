// Package mem is a file system in memory, as a vfs.FS: for trials, for scratch
// data, and for tests that need a file system with all features.
//
//	handle ──▶ node ─┬─ pages   of a file: the written ones, in clusters
//	                 ├─ names   of a directory, in the order they were made
//	                 └─ target  of a symbolic link
//
// It behaves like Linux's tmpfs: modes give users and groups different rights,
// with NFS's two departures (RFC 1813, Section 4.4). It has hard links, special
// files and holes, but no access control lists.
//
// All data counts against Options.Size, for all callers together, and beyond the limit calls fail
// with ENOSPC: no client can consume more memory on the host. The data is lost when the process
// exits; an earlier FS's handle is ESTALE.
//
// One lock guards everything; reads run concurrently. Attributes around a change are read under the
// lock. Slices belong to the caller; Entry.Name is valid during the call to fn.
//
// The package must not know RPC, XDR or exports.
package mem
