// Package rpcrdma carries ONC RPC over RDMA (RFC 8166, with the private data
// of RFC 8797): the transport header, and the responder that takes calls from
// connections, pulls their chunks, and brings replies back in the form that
// the requester provided for; and the requester, which makes calls over one
// connection (ClientConn), or over one after the other (Client). Calls go in the reverse
// direction as well (RFC 8167: ReverseClient, ClientConnConfig.Backchannel), and beside the
// calls, between ends of this project, Immediate Data and atomic operations (ExtensionConn).
//
// The responder:
//
//	                                        ┌──────── short ───────────┐
//	rdma.Conn ──Receive──▶ header ──▶ memory reserved ──▶ RDMA Reads ──┤
//	   (its reader)          │ bad         (may wait)                   ▼
//	                         ▼                                      Handler
//	rdma.Conn ◀──Post── RDMA_ERROR                                     │
//	     ▲                                                              ▼
//	     └────Post── RDMA Writes + Send, as one ◀── form of the reply ◀─┘
//
// The requester:
//
//	       Client: XIDs, calls under way, backoff, signs of life
//	        │ ▲
//	   call │ │ connection lost: wait for the next, and call again
//	        ▼ │
//	Call ──ClientConn──credit──▶ register memory ──▶ Send ═══▶ responder
//	  ▲                                                        │
//	  └─────── deregister ◀──── Receive (by XID) ◀═══ Send ════┘
//
// A StreamListener makes the calls that a responder takes streams of records, for
// servers that speak TCP. What they have to know of a program's messages, to move
// an item to its chunk, its Binding tells:
//
//	rdma.Conn ══▶ Server ──call──▶ StreamListener ──records──▶ a server over TCP
//	          ◀══        ◀─reply──  (Bindings)    ◀──records──
//
// The package must not know which provider moves the octets, nor what a
// program does.
//
// # Life of slices
//
// A received message, and the buffers that its chunks were read into, belong
// to the call and are released when Server.Handler returns; the request's
// slices alias them. The reply's head is appended to a buffer of the call,
// which has room in front for the transport header. That buffer and the
// reply's data item are released when the connection has sent them.
//
// A requester sends from a buffer of its own, and lets the peer reach the
// caller's memory only where it is registered, until Call returns.
//
// # Who waits
//
// Nothing of this package waits on a connection's reader. That serves short calls
// itself, and those whose chunks it has placed, and may be kept by their handler:
// then another goroutine reads on within some milliseconds, and calls of that kind
// are handed over for a while. Where the
// connection below cannot do so (rdma.ReaderHandoff), all calls are. A call that needs much memory waits
// for it in the order of its connection; calls that need none pass it by. A
// requester's calls wait for a credit, for their reply, and for a server that
// is away.
package rpcrdma
