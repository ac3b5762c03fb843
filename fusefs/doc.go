// Package fusefs is a FUSE file system over package nfsclient: an NFS version 3
// mount in user space.
//
//	programs ─▶ kernel ─/dev/fuse─▶ go-fuse ─▶ fusefs ─▶ nfsclient.Client, in the caller's name
//	             │                              │
//	             pages, names, attributes,      nodes by file handle, open files,
//	             for as long as we say          data on their way (nfsclient.WriteBehind)
//
// It behaves as Linux's own NFS client does, as far as FUSE lets it: attributes
// are believed for some time (nfs(5): acregmin to acdirmax), open makes sure of
// them and close writes everything out (close-to-open consistency), an open file
// whose name is removed gets another until it is closed, and a dead server keeps
// programs waiting unless they are killed.
//
// What it holds of the server (package delegation/client) it serves without asking, for as long
// as it does, and gives the kernel for no longer than the lease lets it trust it:
// attributes, what each caller may do, names that are there and that are not, and the
// pages that the kernel has of a file. Until it has been taken back (Drop) nobody else
// changes any of it; what this mount changes shows by the ticks of its own clock.
//
// The package must not know transports, nor how a server is found or named.
package fusefs
