// Package clusterfs is a file system that several hosts share, for tests: an engine
// executes all operations on a backing directory, and for each host a process of its
// own mounts the file system through FUSE.
//
//	host a: kernel ─/dev/fuse─ mount process ─┐                 ┌─ nodes, files, locks
//	                                          ├─ socket ─ engine┤
//	host b: kernel ─/dev/fuse─ mount process ─┘                 └─ record of operations
//
// A mount process only forwards FUSE messages, so what it has not yet forwarded when
// it is stopped reaches the engine when it continues. Until then its host is silent:
// Options says when the engine releases the host's locks, and whether it then
// executes later operations of the host or rejects them all with ESHUTDOWN.
//
// The package must not know NFS.
package clusterfs
