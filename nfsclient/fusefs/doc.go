// Package fusefs is a FUSE file system over package nfsclient: an NFSv3 mount in
// user space.
//
//	programs ─▶ kernel ─/dev/fuse─▶ go-fuse ─▶ fusefs ─▶ nfsclient.Client, in the caller's name
//	             │                              │
//	             pages, names, attributes,      nodes by file handle, open files,
//	             for as long as we say          data on their way (nfsclient.WriteBehind)
//
// It behaves like Linux's own NFS client, as far as FUSE allows. Attributes are
// cached for some time (nfs(5): acregmin to acdirmax). Open revalidates them, and
// close writes all data out (close-to-open consistency). An open file whose name is
// removed gets another name until it is closed. If the server does not respond,
// programs wait unless they are killed.
//
// State under a delegation (package delegation/client) is served without calls to
// the server: attributes, each caller's rights, names and their absence, and the
// kernel's pages of a file. The kernel may cache such state only until the lease
// expires. Until the delegation has been recalled (Drop) no other client changes
// any of it; the ticks of the mount's own clock show its own changes.
//
// The package must not depend on transports, nor on how a server is found or named.
package fusefs
