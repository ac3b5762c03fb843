// Package iwarp is a software RNIC: RDMA over TCP in user space. It combines
// the codecs for MPA (RFC 5044, RFC 6581), DDP (RFC 5041) and RDMAP (RFC 5040,
// RFC 7306) into connections that implement rdma.Conn, with Sends, RDMA Writes
// and Reads, atomic operations, Immediate Data, and memory that the peer
// accesses by STag.
//
//	   Post                     Handler.Receive, Completer.Complete
//	    │                                      ▲
//	sendQueue: message ─cut─▶ FPDUs      receiver: FPDU ─▶ segment ─┬▶ region
//	    │ batch                                ▲                    ├▶ buffer
//	    ▼ one writev                           │ readv              └▶ response
//	  socket ════════════════ TCP ═══════════ socket
//
// Open returns a Device, which listens and dials, and has its own STags and
// counts: servers in one process do not share them.
//
// At most one goroutine reads a connection: its own reader, while few others
// are busy or a message is incomplete, or a worker, which reads many
// connections in turn. There is no writer goroutine: the caller of Post writes
// immediately if the socket is free, or leaves the work to the caller that is
// writing. A goroutine waits for the socket only when its buffer is full.
//
// While the reader delivers the messages from one read, posted requests are
// held back and sent in batches: requests that arrived together and are
// answered in Handler.Receive cost one system call to read, and one to write
// each batch of replies. The peer processes the first replies while the reader
// delivers the next messages. Receive must not wait for the completion of a
// request that it has posted: the request might be sent only after Receive has
// returned.
//
// # Waiting
//
// Kernel TCP sockets are not in the net package's poller. A connection with no
// partial message outstanding rests: it has no goroutine, no thread, and no
// memory except its state. One epoll instance watches all such connections:
//
//	rests ──event──▶ ready ──▶ a worker reads the socket empty ──▶ rests
//	  ▲                           │
//	  │                           │ part of a message, or a long read,
//	  │                           │ or hardly any other connection waits
//	  │                           ▼
//	  └──── nothing more ──── the goroutine continues as the reader of
//	                          this connection; another becomes worker
//
// With many busy connections, one call returns events for many of them, and
// each message then costs one system call to read it and one to reply, without
// a goroutine switch and without re-arming. The events are edge-triggered, so
// after a read that has not filled its buffer the socket is known to be empty,
// unless the peer has sent a FIN or urgent data.
//
// A connection's own reader polls the socket briefly if there is nothing to
// read. Then, if few goroutines do so, it waits in the kernel for some
// milliseconds, provided that a message is incomplete or hardly any other
// connection is busy. Otherwise it waits for the epoll instance, or its
// connection rests.
//
// No connection prevents the others from being served. A worker never waits for
// a peer, neither for the rest of a message nor for socket buffer space. If
// Handler.Receive takes long, ReaderHandoff makes another goroutine the worker
// immediately; without it a guard does so after one to two milliseconds. More
// workers, up to one for each processor, help while several connections are
// ready.
//
// # Placement
//
// A tagged segment's payload is read from the socket directly into the
// registered memory, after STag, stream, rights and bounds have been checked,
// segment by segment. Many segments from a large message are read at once, each
// header to its expected position, if the memory's content is undefined until a
// later message arrives: the memory for local RDMA Reads, and regions with
// rdma.Scratch.
//
// With CRCs on, an FPDU is kept in staging until its whole CRC has been
// checked, and then copied: no possibly corrupt bytes reach memory that anyone
// may read. RFC 5044, Section 6, requires an FPDU to be checked before it is
// passed to DDP. Exception: memory whose content is undefined until a later
// message arrives. The payload is read into this memory and verified in place;
// then the segment is passed to DDP, or the connection is terminated. No later
// message declares a corrupt FPDU's bytes valid. Such memory lies beyond all
// bytes that the peer has written, so even a corrupt header cannot overwrite
// valid bytes.
//
// # Atomic operations
//
// The connection's reader performs atomic operations, with the processor's
// compare-and-swap on the word in memory, which is in the processor's byte
// order. The operations are therefore atomic across all connections in the
// process, and with respect to rdma.Word, which RFC 7306 leaves open (Section
// 5). Nothing else should use such a word: RDMA Writes and Reads that touch it
// are not atomic.
//
// An operation is performed as soon as its request is delivered. Later data on
// the connection may be placed before the response is sent, and an earlier Read
// may see the operation's effect, unless the operation is fenced (Section 7).
// RDMA Reads and atomic operations in progress share IRD and ORD.
//
// # Slice ownership
//
// A work request's Data is read (or, for an RDMA Read, written) until the
// request completes. The peer may read and write a registered slice until
// Deregister returns. A received message belongs to the Handler.
//
// The package must not know the protocol above it.
package iwarp
