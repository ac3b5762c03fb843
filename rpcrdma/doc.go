// Package rpcrdma carries ONC RPC over RDMA (RFC 8166, with the private data of
// RFC 8797). It has a responder (Server) and a requester. The responder takes
// calls from connections, pulls their chunks, and sends replies in the form
// that the requester provided for. The requester makes calls over one
// connection (ClientConn), or over successive connections (Client). Calls may
// also go in the reverse direction (RFC 8167: ReverseClient,
// ClientConnConfig.Backchannel). Between ends of this project, Immediate Data
// and atomic operations accompany the calls (ExtensionConn).
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
// Package stream gives the calls that a responder takes to servers that speak
// TCP.
//
// The package must not know which provider moves the bytes, nor what a program
// does.
//
// # Life of slices
//
// A received message, and the buffers that its chunks were read into, belong to
// the call and are released when Server.Handler returns; the request's slices
// alias them. The reply's head is appended to a buffer of the call, which has
// room in front for the transport header. That buffer and the reply's data item
// are released when the connection has sent them.
//
// A requester sends from a buffer of its own. The peer can reach the caller's
// memory only while that memory is registered, at most until Call returns.
//
// # Waiting
//
// This package itself never blocks a connection's reader goroutine. The reader
// serves short calls itself, and calls whose chunks it has placed. A handler
// may block it: then another goroutine takes over reading within some
// milliseconds, and calls of that kind are handed to other goroutines for a
// while. Inside of TLS, another goroutine takes over at once for a call with
// much data, because reading is decrypting. If the connection below does not
// support this (rdma.ReaderHandoff), all calls are handed over. A call that
// needs much memory waits for it in the order of its connection; calls that
// need none pass it by. A requester's calls wait for a credit, for their reply,
// and for a server that is away.
package rpcrdma
