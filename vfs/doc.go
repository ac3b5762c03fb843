// Package vfs defines the file system interface for NFS servers: operations on opaque handles, done
// as a caller, with the attributes before and after that NFS replies carry.
//
//	nfsserver ──FS──▶ vfs/posix   a directory of the host
//	                  vfs/billy   any go-billy file system
//
// The package must not know RPC, XDR, exports or transports. Errors are syscall.Errno values if the
// host has one for the case, and otherwise one of the errors below; both may be wrapped.
package vfs
