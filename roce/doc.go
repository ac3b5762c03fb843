// Package roce is the unreliable half of the InfiniBand Architecture, volume 1
// (section 9.8), in software: Unreliable Connection (UC) and Unreliable
// Datagram (UD) over RoCEv2, that is over UDP port 4791, and raw datagrams over
// a link.
//
//	Post ──▶ sender: message ─cut─▶ packets ──▶ Wire ══ UDP 4791 ══▶ peer
//	                                             │
//	Completer ◀── queue pair ◀── checks, ICRC ◀──┘
//	                  └── region or posted receive: placed packet by packet
//
// # The services
//
// In UC, two queue pairs are connected to each other. The sender cuts a message
// of up to 2^31 bytes into packets of the path MTU with consecutive numbers
// (PSN). The receiver accepts a message that arrives complete and in order. If
// a packet is missing or out of order, the receiver drops the whole message and
// starts again at the next first packet. A Send uses a receive that the peer
// has posted. An RDMA WRITE goes to memory that the peer has registered and
// advertised by its R_Key. Only a write with immediate data uses a receive, so
// only such a write is noticed.
//
// In UD, a queue pair has no connection. A message is one packet, at most of
// the path MTU. Each message names its destination: an address, a queue pair,
// and the Q_Key that the queue pair must have. The address may be a multicast
// group's, which queue pairs join. The receiver learns the sender from 40 bytes
// in front of the message in its memory (the GRH), and from the completion.
//
// Neither service has acknowledgements. A send is complete when the network has
// taken it. Only the receiver knows whether the message arrives, and drops
// invalid packets silently: Statistics has a counter for each cause. Nothing
// therefore waits for a peer, and a lost peer costs nothing; but data that must
// not be lost must not use these services.
//
// # States
//
// A queue pair goes from Reset to Init, which accepts receives, to RTR, which
// accepts packets, to RTS, which also sends. UC.Connect and UD.Start go all the
// way. A local fault, such as missing memory or a network that takes no
// packets, ends a UC queue pair: it goes to Error, and all its work completes
// as flushed. A peer's packets never have that effect.
//
// # Duplicates
//
// The package does not drop duplicates of a message: a first packet is in order
// with any PSN (C9-184). Networks seldom duplicate packets; messages that must
// not take effect twice need a number.
//
// # Life of slices
//
// The queue pair owns the data of a WR until Post returns, and those of a Recv
// until it completes. Registered memory belongs to its owner, but peers may
// change it until Deregister returns.
//
// The package must not know the protocols above it.
package roce
