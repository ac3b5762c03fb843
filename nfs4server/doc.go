// Package nfs4server is NFS version 4, minor versions 0 to 2 (RFC 7530, RFC
// 8881, RFC 7862), over the exports of a realm.
//
//	oncrpc.Mux ─Call─▶ compound: SEQUENCE ─▶ nfs4state: slot, lease
//	                      │      operation ─▶ realm: handle ▶ export, caller
//	                      │         …               └─▶ vfs.FS
//	                      └─▶ Reply, which the slot keeps
//
// A compound reads, executes and answers one operation after the other, and
// stops at the first that fails. Before each it makes sure that the longest
// results of that operation fit into the reply, so that nothing is executed
// whose reply could not leave.
//
// # Delegations
//
// OPEN for reading gives a delegation, which is a recall.Holder, if possible with a
// lease of the file system (delegate.go). Every change recalls it, by realm; the
// callbacks to each client have a queue of their own (callback.go). They are made by the
// contexts or credentials that the client offers.
//
// # Names
//
// Clients see one tree. Its upper part is a pseudo file system with nothing but
// the names that lead to exports which the client may use (see tree). An
// export with fsid=0 or the path "/" is the root itself.
//
// # Over two transports
//
// TCP and RDMA are two servers to a client, with one file system: Linux would
// otherwise merge two mounts, and send over TCP the calls that belong on RDMA.
//
// The package must not know a transport, nor how a file system is stored.
package nfs4server
