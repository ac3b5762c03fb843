// Package rpcrdma carries ONC RPC over RDMA (RFC 8166, with RFC 8797's private
// data). It implements a responder (Server) and a requester. The responder
// receives calls, pulls their chunks, and sends replies in the form that the
// requester provided for. The requester sends calls over one connection
// (ClientConn), or over successive connections (Client). Calls may also go in
// the reverse direction (RFC 8167: ReverseClient,
// ClientConnConfig.Backchannel). Between two ends of this project, Immediate
// Data and atomic operations complement the calls (ExtensionConn).
//
// The responder:
//
//	                                        ┌──────── short ───────────┐
//	rdma.Conn ──Receive──▶ header ──▶ memory reserved ──▶ RDMA Reads ──┤
//	   (its reader)          │ bad         (may wait)                   ▼
//	                         ▼                                      Handler
//	rdma.Conn ◀──Post── RDMA_ERROR                                     │
//	     ▲                                                              ▼
//	     └────Post── RDMA Writes + Send, as one ◀── reply's form ◀──────┘
//
// The requester:
//
//	       Client: XIDs, calls in flight, backoff, keepalive
//	        │ ▲
//	   call │ │ connection lost: wait for the next, and retransmit
//	        ▼ │
//	Call ──ClientConn──credit──▶ register memory ──▶ Send ═══▶ responder
//	  ▲                                                        │
//	  └─────── deregister ◀──── Receive (by XID) ◀═══ Send ════┘
//
// Package stream passes the calls that a responder receives to servers that
// speak RPC over TCP.
//
// The package must not know which provider moves the bytes, nor what a program
// does.
//
// # Slice ownership
//
// A received message, and the buffers that its chunks were read into, belong to
// the call and are released when Server.Handler returns; the request's slices
// alias them. The reply's head is appended to the call's buffer, which has
// space for the transport header at the start. That buffer and the reply's data
// item are released when the connection has sent them.
//
// A requester sends from its own buffer. The peer can access the caller's
// memory only while that memory is registered, at most until Call returns.
//
// # Waiting
//
// This package itself never blocks a connection's reader goroutine. The reader
// serves short calls itself, and calls whose chunks it has placed. If a handler
// blocks it, another goroutine takes over reading within some milliseconds, and
// calls of that kind are dispatched to other goroutines for a while. Within
// TLS, another goroutine takes over immediately for a call with much data,
// because reading includes decrypting. If the connection below does not support
// this (rdma.ReaderHandoff), all calls are dispatched. A call that needs much
// memory waits for it in its connection's order; calls that need none overtake
// it. A requester's calls wait for a credit, for their reply, and for an
// unreachable server.
package rpcrdma
