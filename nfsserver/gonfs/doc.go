// Package gonfs serves the file system of a willscott/go-nfs handler, instead of go-nfs's own
// server:
//
//	nfs.Handler ─New─▶ vfs.FS ─▶ nfsserver.Export ─▶ RDMA and TCP
//
// Package nfsserver decodes and checks calls and sends the replies; it uses the handler
// only for its file system, file handles, attributes and space.
//
// The package must not depend on RPC or a transport.
package gonfs
