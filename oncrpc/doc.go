// Package oncrpc is ONC RPC version 2 (RFC 5531): call and reply messages,
// authentication flavours, the dispatch of calls to programs, and a server and
// a client over TCP with record marking. Other transports use the same Service.
// An Exchange is a call as a client makes it through a transport's Caller, of
// which TCPClient is the one over TCP.
//
//	TCP: Server            RPC-over-RDMA: rpcrdma
//	 │ records               │ inline messages and chunks
//	 └──── Request ──┬───────┘            ▲
//	                 ▼                    │ Reply: head, item, tail
//	ReplayCache: executed already? ───────┤
//	                 ▼                    │
//	Mux: header, credential, dispatch ────┤
//	                 │ Call               │ results
//	                 ▼                    │
//	Handler: one version of one program ──┘
//
// The package must not know any program, nor what a transport does with the
// one data item that a message may carry apart from the rest. Handlers must
// not know which transport carried a call: arguments come from Call.Args, and
// results go to Reply in the same way for all.
//
// # Life of slices
//
// What a Request points to, and so all that Call.Args returns and Cred.GIDs,
// is valid until the handler returns; a Reply must not point into it. A Reply
// belongs to the transport. Its Item is a lent buffer (package buf) that the
// transport releases once the reply is sent; its Tail must stay as it is until
// then.
//
// What an Exchange points to is the caller's again when Call returns, also when
// the caller gave the call up; its Results are valid until Release.
//
// # A TCP connection of a server
//
// One goroutine at a time has the turn to read. Who has received a call passes
// the turn on and serves the call itself, so that the call does not wait for
// another goroutine to wake up:
//
//	     ┌──────── turn ────────┐
//	     ▼                      │
//	a slot is free ─▶ record ─▶ call ─▶ Service ─▶ reply queue ─▶ writev ─▶ slot
//
// The slots bound the calls of a connection. Where all connections of a party have very
// many calls under way, who has received one keeps the turn until it is answered. A call
// that steps aside (Reply.StepAside) has neither turn nor slot. The memory of a server's large
// requests, that of its large replies, be they data or heads (Reserve), and its connections are shared out between
// addresses, and taken back from peers that do not move while others wait.
package oncrpc
