// Package vfs says what the NFS programs ask of a file system: operations on
// opaque handles in the name of a caller, with the attributes before and
// after that NFS replies carry.
//
//	nfsserver ──FS──▶ vfs/posix   a directory of the host
//	                  vfs/billy   any go-billy file system
//
// The package must not know RPC, XDR, exports or transports. Errors are
// syscall.Errno values where the host has one for the case, and the few
// errors below where it has not; both may be wrapped.
package vfs
