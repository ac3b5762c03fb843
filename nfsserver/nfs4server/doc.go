// Package nfs4server serves NFSv4, minor versions 0 to 2 (RFC 7530, RFC
// 8881, RFC 7862), for the exports in an export set.
//
//	oncrpc.Mux ─Call─▶ compound: SEQUENCE ─▶ nfs4state: slot, lease
//	                      │      operation ─▶ exportset: handle ▶ export, caller
//	                      │         …               └─▶ vfs.FS
//	                      └─▶ Reply, which the slot caches
//
// A compound reads and executes one operation after the other, appends its results, and
// stops at the first that fails. Before each it checks that the longest possible
// results fit into the reply, so that no operation is executed
// whose reply could not be sent.
//
// # Delegations
//
// OPEN for reading grants a delegation, which is a recall.Holder, if possible with a
// file system lease (deleg_grant.go). Package exportset recalls it before every change. Each
// client has its own callback queue (cb_queue.go). Callbacks use the security
// contexts or credentials that the client offers.
//
// # Names
//
// Clients see one tree. Its upper part is a pseudo file system that contains only
// the names that lead to exports that the client may use (see tree). An
// export with fsid=0 or the path "/" is the root itself.
//
// # Over two transports
//
// TCP and RDMA are two servers to a client, with one file system: Linux would
// otherwise merge two mounts, and send over TCP the calls that belong on RDMA.
//
// The package must not depend on a transport, or on how a file system is stored.
package nfs4server
