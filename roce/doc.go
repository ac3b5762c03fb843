// Package roce is the unreliable half of the InfiniBand Architecture, volume 1
// (section 9.8), in software: Unreliable Connection (UC) and Unreliable Datagram
// (UD) over RoCEv2, that is over UDP port 4791, and raw datagrams over a link.
//
//	Post ──▶ sender: message ─cut─▶ packets ──▶ Wire ══ UDP 4791 ══▶ peer
//	                                             │
//	Completer ◀── queue pair ◀── checks, ICRC ◀──┘
//	                  └── region or posted receive: placed packet by packet
//
// # What the services are
//
// In UC two queue pairs are connected, each to one other. A message of up to
// 2^31 bytes is cut into packets of the path MTU, which carry consecutive
// numbers (PSN). The receiver takes a message that comes whole and in order; one
// of which a packet is missing, or is out of order, is dropped as a whole, and the
// next first packet of a message begins anew. There are Sends, which take a
// receive that the other end has posted, and RDMA WRITEs, which go to memory
// that it has registered and told the R_Key of; only with immediate data does
// such a write take a receive, and so is noticed.
//
// In UD a queue pair is connected to nobody. A message is one packet, at most of
// the path MTU; each says where it goes: an address, a queue pair, and the Q_Key
// that this must have. The address may be a multicast group's, which queue pairs
// join. The receiver learns who has sent, from 40 bytes in front of the message
// in its memory (the GRH), and from the completion.
//
// Nobody answers in either. A send is complete when it is handed over to the
// network; whether it arrives is known to the receiver alone, which drops what is
// wrong without a word: Statistics has a counter for each cause. So nothing waits
// for a peer, a peer that has gone costs nothing, and what must not be lost does
// not belong here.
//
// # States
//
// A queue pair goes from Reset to Init, where receives may be posted, to RTR,
// where packets come in, to RTS, where it sends as well. UC.Connect and UD.Start
// go all the way. A local fault, memory that is not there or a network that does
// not take packets, ends a UC queue pair: it is in Error, and all its work
// completes as flushed. What a peer sends never does.
//
// # Duplicates
//
// Nothing here drops a message that comes twice: a first packet is in order
// whatever its PSN is (C9-184). Networks seldom repeat; messages that must not
// count twice carry a number.
//
// # Life of slices
//
// The data of a WR belong to the queue pair until Post returns, those of a Recv
// until it completes. Registered memory belongs to its owner, but peers may change
// it until Deregister returns.
//
// The package must not know what is said over it.
package roce
