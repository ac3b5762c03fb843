// Package workload does on a mounted directory what programs do on a file
// system, and checks every result exactly. The interop tests run it in the guest
// (package interop/guestwork) on mounts of our server and of the kernel's, and
// on the host against the directory that is served.
//
//	Run ────▶ the steps, each in a directory of its own; what they leave behind
//	          is compared afterwards:
//	Manifest  one line for each object: what stat, readlink and sha256 say;
//	          equal on both sides of the server
//	Content   every byte of what the steps "tree" and "sizes" left
//	Hold      files kept open while the server is stopped and started
//	Ledger    synced records, and what was promised, for a server that is killed
//	Soak      one mount writes, another reads, no byte may be wrong
//
// The steps assert POSIX as the Linux NFS client offers it, so they pass on a
// local file system too. They must not know which server or transport they work
// on.
package workload
