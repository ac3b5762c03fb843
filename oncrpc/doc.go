// Package oncrpc is ONC RPC version 2 (RFC 5531): call and reply messages, authentication
// flavors, a dispatcher that routes calls to programs, and a server and a client over TCP
// with record marking. Other transports use the same Service. An Exchange is a call as a
// client makes it through a transport's Caller. TCPClient is the Caller over one TCP
// connection. A Line is the Caller that replaces lost connections, over any transport.
//
//	TCP: Server            RPC-over-RDMA: rpcrdma
//	 │ records               │ inline messages and chunks
//	 └──── Request ──┬───────┘            ▲
//	                 ▼                    │ Reply: head, item, tail
//	replay.Cache: executed already? ──────┤
//	                 ▼                    │
//	Mux: header, credential, dispatch ────┤
//	                 │ Call               │ results
//	                 ▼                    │
//	Handler: one version of one program ──┘
//
// The package must not know any program, nor how a transport carries the
// data items that a message may have apart from the rest. Handlers must not know
// which transport carried a call: for all transports, arguments come from
// Call.Args, and results go to Reply.
//
// # Slice lifetimes
//
// The memory that a Request refers to, and so everything that Call.Args returns
// and Cred.GIDs, is valid until the handler returns. A Reply must not point
// into it. A Reply belongs to the transport. Its Item is a lent buffer (package
// buf) that the transport releases once the reply is sent; its Tail must not
// change until then.
//
// The memory that an Exchange refers to belongs to the caller again when Call
// returns, even if the caller gave the call up. Its Results are valid until
// Release.
//
// # A TCP connection of a server
//
// One goroutine at a time has the turn to read. A goroutine that has received a
// call serves the call itself, and keeps the turn if the call is likely to be
// short. Otherwise it passes the turn on first, and a watchdog passes the turn
// on if the call takes long (package relief):
//
//	     ┌───────────────────────────── turn ─────────────────────────────┐
//	     ▼                                                                │
//	a slot is free ─▶ record ─▶ call ─▶ Service ─▶ reply queue ─▶ writev ─▶ slot
//
// Replies to pipelined calls are sent in batches. The slots bound a connection's calls.
// If a party's connections together have very many calls in flight, a goroutine keeps the
// turn until it has replied to its call. A call that steps aside (Reply.StepAside) has
// neither turn nor slot.
//
// A server shares out three things between parties: request memory for large requests,
// reply memory for large replies (data or heads, see Reserve), and connections. It takes
// them back from peers that make no progress while others wait. Mapped data
// (Reply.Mappable) does not count as such memory: the calls in flight bound its amount,
// and the write timeout bounds its lifetime.
package oncrpc
