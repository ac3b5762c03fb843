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
// The package must not know transports, nor how a server is found or named.
package fusefs
