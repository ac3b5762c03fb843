// Package workload performs typical program work on a mounted directory, and checks every
// result exactly. The interop tests run it in the guest (package interop/guestwork) on
// mounts from our server and the kernel's, and on the host in the served directory.
//
//	Run ────▶ the steps, each in a separate directory; the remaining files
//	          are compared afterwards:
//	Manifest  one line for each object: results from stat, readlink and
//	          sha256; equal on the server's both sides
//	Content   every byte that the steps "tree" and "sizes" left
//	Hold      files kept open while the server is stopped and started
//	Ledger    synced records and their promises, for a server that is killed
//	Soak      one mount writes, another reads, no byte may be wrong
//
// The steps assert POSIX as the Linux NFS client offers it, so they also pass
// on a local file system. They must not know the server or transport.
package workload
