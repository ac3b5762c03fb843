// Package bridge lets NFS clients that only have TCP use a server with NFS over
// RDMA: it forwards their calls, and the replies.
//
//	TCP clients            bridge                               server
//	XID 7 ──┐                                                ┌─▶ NFS, and others
//	XID 7 ──┼▶ oncrpc.Server ─▶ Bridge ──▶ rpcrdma.Client ─────┤   over RDMA
//	XID 9 ──┘      │              │  the connection's XIDs   └─▶ MOUNT, or else
//	               │              └────────────────────────────▶ MOUNT over TCP
//	portmapper ◀───┘ Portmap                  Mount
//
// The bridge forwards calls unchanged, credential and verifier included, and
// likewise replies: it has no own identity. Only XIDs are replaced, because several
// clients may use the same XID at a time. All clients share one RDMA connection,
// which never reuses an XID. The server sees a single client, and must not take one
// client's call for a retransmission of another's.
//
// # RPCSEC_GSS
//
// A context signs the XID too, so a client that uses contexts has its own RDMA
// connection for the signed calls, with its own XIDs. The bridge cannot send such a
// call again. If the connection closes, the bridge closes the client's, and the
// client sends its calls again. The contexts are the client's and the server's: the
// bridge can neither read nor change what they encrypt or sign.
//
// # Trust
//
// For the server all calls come from the bridge's host over RDMA, for which the
// server requires no reserved port. The bridge therefore requires one: it denies
// calls from other ports, unless Insecure declares that all users on the clients'
// hosts are trusted.
//
// # Data
//
// Data items that RFC 8267 makes DDP-eligible are sent in chunks. The bytes of a
// WRITE leave as a Read chunk from the record's receive buffer, and those of a READ
// are placed in the buffer from which the reply's record is sent. Only message
// headers are copied. With RPCSEC_GSS no item is removed from a message, which may
// be signed or sealed as a whole.
//
// # Memory and waiting
//
// oncrpc.Server bounds calls per client, and the bytes of long calls and replies in
// total; the memory that the Bridge offers the server comes from there. The Bridge
// distributes the server's credits, so that neither one client nor one client group
// has them all. A call has its memory before its turn, and then waits only for the
// server. While a server is unreachable, calls wait as long as the RDMA connection
// does. After that the Bridge closes the client's connection, as a server's exit
// would. A client that still needs the reply reconnects and retries, and no old
// call remains in the bridge that could be executed after the retry.
//
// The package must not depend on RDMA providers, nor on what calls do to files.
package bridge
