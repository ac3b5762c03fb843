// Package bridge lets NFS clients that have TCP alone use a server that has NFS
// over RDMA: it passes their calls on, and the replies back.
//
//	TCP clients            bridge                               server
//	XID 7 ──┐                                                ┌─▶ NFS, and others
//	XID 7 ──┼▶ oncrpc.Server ─▶ Bridge ──▶ rpcrdma.Client ─────┤   over RDMA
//	XID 9 ──┘      │              │  XIDs of the line's own  └─▶ MOUNT, or else
//	               │              └────────────────────────────▶ MOUNT over TCP
//	portmapper ◀───┘ Portmap                  Mount
//
// A call goes out as it came, credential and verifier included, and so does a
// reply: the bridge is nobody of its own. Only XIDs are exchanged, as several
// clients may use the same at a time. The line, which all clients share, never
// uses one twice: to the server they are one client, and it must not take a call
// of one for a retransmission of another's.
//
// # Trust
//
// To the server all calls come from the bridge's host, over RDMA, where it asks for no
// reserved port. So the bridge does: what comes from another is denied, unless Insecure
// says that the users of the clients' hosts are trusted.
//
// # Data
//
// What RFC 8267 lets travel apart from the message does so: the bytes of a WRITE
// leave as a Read chunk from the buffer that the record was received in, and
// those of a READ are placed in the buffer that the record of the reply is sent
// from. Nothing is copied but heads of messages. Under RPCSEC_GSS nothing is
// taken out of a message, which may be signed or sealed as a whole.
//
// # Memory, and who waits
//
// oncrpc.Server bounds calls for each client, and the bytes of long calls and
// replies for all: what the Bridge offers the server comes from there. The server's
// credits are shared out, so that no client has them all, nor those of one address.
// A call has its memory before its turn, and with that waits for nobody but the
// server. Calls wait for a server that is away for as long as the line does. Then the
// client's connection is cut, as a server's end would have it: a client that insists
// comes again, and no call is left behind here that might be executed after its retry.
//
// The package must not know providers of RDMA, nor what calls do to files.
package bridge
