// Package roce implements the InfiniBand Architecture's unreliable services,
// volume 1 (section 9.8), in software: Unreliable Connection (UC) and
// Unreliable Datagram (UD) over RoCEv2, that is over UDP port 4791, and raw
// datagrams over a link.
//
//	Post ──▶ sender: message ─cut─▶ packets ──▶ Wire ══ UDP 4791 ══▶ peer
//	                                             │
//	Completer ◀── queue pair ◀── checks, ICRC ◀──┘
//	                  └── region or posted receive: placed packet by packet
//
// # The services
//
// In UC, two queue pairs are connected to each other. The sender splits a
// message of up to 2^31 bytes into packets of path MTU size with consecutive
// numbers (PSN). The receiver accepts a message that arrives complete and in
// order. If a packet is missing or out of order, the receiver drops the
// complete message and resumes at the next first packet. A Send uses a receive
// that the peer has posted. An RDMA WRITE goes to memory that the peer has
// registered and advertised by its R_Key. Only a write with immediate data uses
// a receive, so only such a write is noticed.
//
// In UD, a queue pair has no connection. A message is one packet, of at most
// path MTU size. Each message names its destination: an address, a queue pair,
// and the Q_Key that the queue pair must have. The address may be a multicast
// group's, which queue pairs join. The receiver finds the sender in 40 bytes
// before the message in its memory (the GRH), and in the completion.
//
// Neither service has acknowledgements. A send is complete when the network has
// accepted it. Only the receiver knows whether the message arrives, and drops
// invalid packets silently: Statistics has a counter for each cause. Nothing
// therefore waits for a peer, and a lost peer costs nothing; but data that must
// not be lost must not be sent over these services.
//
// # States
//
// A queue pair goes from Reset to Init, which accepts receives, to RTR, which
// accepts packets, to RTS, which also sends. UC.Connect and UD.Start perform
// all transitions. A local fault, such as missing memory or a network that
// accepts no packets, moves a UC queue pair to Error, and all its work
// completes as flushed. A peer's packets never have that effect.
//
// # Duplicates
//
// The package does not drop duplicate messages: a first packet is in order with
// any PSN (C9-184). Networks seldom duplicate packets; messages that must not
// take effect twice need a sequence number.
//
// # Slice ownership
//
// The queue pair owns a WR's Data until Post returns, and a Recv's until it
// completes. Registered memory belongs to its owner, but peers may change it
// until Deregister returns.
//
// The package must not know the protocols above it.
package roce
