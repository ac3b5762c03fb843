// Package fusefs is a FUSE file system over package nfsclient: an NFS version 3
// mount in user space.
//
//	programs ─▶ kernel ─/dev/fuse─▶ go-fuse ─▶ fusefs ─▶ nfsclient.Client, in the caller's name
//	             │                              │
//	             pages, names, attributes,      nodes by file handle, open files,
//	             for as long as we say          data on their way (nfsclient.WriteBehind)
//
// It behaves as Linux's own NFS client does, as far as FUSE allows. Attributes
// are believed for some time (nfs(5): acregmin to acdirmax). Open revalidates
// them, and close writes everything out (close-to-open consistency). An open
// file whose name is removed gets another name until it is closed. A dead
// server keeps programs waiting unless they are killed.
//
// State under a delegation (package delegation/client) is served without asking
// the server: attributes, the rights of each caller, names and their absence,
// and the kernel's pages of a file. The kernel may believe such state for no
// longer than the lease lasts. Until the delegation has been taken back (Drop)
// nobody else changes any of it; changes by this mount show in the ticks of its
// own clock.
//
// The package must not know transports, nor how a server is found or named.
package fusefs
