// Package bridge lets NFS clients that only have TCP use a server with NFS over
// RDMA: it passes on their calls, and the replies.
//
//	TCP clients            bridge                               server
//	XID 7 ──┐                                                ┌─▶ NFS, and others
//	XID 7 ──┼▶ oncrpc.Server ─▶ Bridge ──▶ rpcrdma.Client ─────┤   over RDMA
//	XID 9 ──┘      │              │  XIDs of the line's own  └─▶ MOUNT, or else
//	               │              └────────────────────────────▶ MOUNT over TCP
//	portmapper ◀───┘ Portmap                  Mount
//
// The bridge passes calls unchanged, credential and verifier included, and
// likewise replies: it has no identity of its own. Only XIDs are replaced,
// because several clients may use the same XID at a time. All clients share one
// RDMA connection, which never reuses an XID. The server sees a single client,
// and must not take one client's call for a retransmission of another's.
//
// # RPCSEC_GSS
//
// A context signs the XID too, so a client that uses contexts has an RDMA
// connection of its own for the signed calls, with its own XIDs. The bridge cannot
// send such a call again. If the connection ends, so does the client's, and the
// client sends its calls again. The contexts are the client's and the server's: the
// bridge can neither read nor change what they encrypt or sign.
//
// # Trust
//
// To the server all calls come from the bridge's host over RDMA, and there the
// server requires no reserved port. The bridge therefore requires one: it
// denies calls from other ports, unless Insecure says that the users of the
// clients' hosts are trusted.
//
// # Data
//
// Items that RFC 8267 lets travel apart from the message do so. The bytes of a
// WRITE leave as a Read chunk from the receive buffer of the record, and those
// of a READ are placed in the buffer from which the record of the reply is
// sent. Only heads of messages are copied. Under RPCSEC_GSS nothing is taken
// out of a message, which may be signed or sealed as a whole.
//
// # Memory and waiting
//
// oncrpc.Server bounds calls per client, and the bytes of long calls and
// replies in total; the memory that the Bridge offers the server comes from
// there. The Bridge shares out the server's credits, so that neither one client
// nor one party has them all. A call has its memory before its turn, and then
// waits only for the server. While a server is away, calls wait as long as the
// RDMA connection does. After that the Bridge cuts the client's connection, as
// the end of a server would. A client that still wants the call reconnects and
// retries, and no old call remains in the bridge that might be executed after
// the retry.
//
// The package must not know providers of RDMA, nor the effect of calls on
// files.
package bridge
