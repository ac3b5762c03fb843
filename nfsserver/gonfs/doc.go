// Package gonfs serves the file system of a willscott/go-nfs handler, in place of
// go-nfs's own server:
//
//	nfs.Handler ─New─▶ vfs.FS ─▶ nfsserver.Export ─▶ RDMA and TCP
//
// Calls are decoded, checked and answered by package nfsserver; the handler is
// asked only for its file system, file handles, attributes and space.
//
// The package must not know RPC or a transport.
package gonfs
