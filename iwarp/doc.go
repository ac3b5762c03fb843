// Package iwarp is a software RNIC: RDMA over TCP in user space. It joins the
// codecs of MPA (RFC 5044, RFC 6581), DDP (RFC 5041) and RDMAP (RFC 5040, RFC
// 7306) to connections that implement rdma.Conn, with Sends, RDMA Writes and
// Reads, atomic operations, Immediate Data, and memory that the peer reaches by
// STag.
//
//	   Post                     Handler.Receive, Completer.Complete
//	    │                                      ▲
//	sendQueue: message ─cut─▶ FPDUs      receiver: FPDU ─▶ segment ─┬▶ region
//	    │ batch                                ▲                    ├▶ buffer
//	    ▼ one writev                           │ readv              └▶ response
//	  socket ════════════════ TCP ═══════════ socket
//
// Open makes a Device, which listens, dials, and has its own STags and counts:
// servers in one process do not see one another's.
//
// At most one goroutine reads a connection: its own while it is busy alone or
// within a message, or a worker, which reads many connections in turn. No
// goroutine writes: the caller of Post finds the socket free and writes at once,
// or leaves the work to the caller that is writing. Only if the socket is full,
// a goroutine waits for it.
//
// While the reader hands over the messages of one read, posted requests are
// held back and leave some at a time: calls that arrived together and are
// answered in Handler.Receive cost one system call to read, and one to write
// each few answers. The peer works on the first answers while the reader hands
// over the next messages. Receive must not wait for the completion of a request
// that it has posted: the request may be sent only after Receive has returned.
//
// # Waiting
//
// TCP sockets of the kernel are not in the net package's poller. A connection
// whose peer owes nothing rests: it has no goroutine, no thread, and no memory
// except its state. One epoll instance watches all such connections:
//
//	rests ──event──▶ ready ──▶ a worker reads the socket empty ──▶ rests
//	  ▲                           │
//	  │                           │ part of a message, or a long read,
//	  │                           │ or hardly any other connection waits
//	  │                           ▼
//	  └──── nothing more ──── the goroutine reads on, for this connection
//	                          alone; another goroutine is the worker
//
// With many busy connections, one call tells a worker of many of them, and each
// message then costs one system call to read it and one to answer: no change of
// goroutine, and nothing to arm again. The events are edge-triggered, so after a
// read that has not filled its memory the socket is known to be empty, unless
// the peer has sent a FIN or urgent data.
//
// The goroutine of one connection polls the socket for a moment if it has
// nothing to read. Then, if few do so, it waits in the kernel for some
// milliseconds, provided it is within a message or hardly any other connection
// is busy. Otherwise it waits for the epoll instance, or its connection rests.
//
// No connection keeps the others from being served. A worker never waits for a
// peer: not for the rest of a message, nor for room in a socket. If
// Handler.Receive lasts, ReaderHandoff makes another goroutine the worker at
// once, and without it a guard does after one to two milliseconds. More workers,
// up to one for each processor, help while several connections are ready.
//
// # Placement
//
// The payload of a tagged segment goes from the socket straight into the
// registered memory, after STag, stream, rights and bounds have been checked,
// segment by segment. Of a large message many segments are read at once, each
// header to its expected position, if the content of the memory is undefined
// until a later message arrives: the memory of this end's RDMA Reads, and
// regions with rdma.Scratch.
//
// With CRCs on, an FPDU is kept in staging until its whole CRC has been
// checked, and then copied: no possibly corrupt bytes reach memory that anybody
// may read. RFC 5044, Section 6, wants an FPDU checked before DDP has it.
// Exception: memory whose content is undefined until a later message arrives.
// The payload is read into this memory and verified in place; then DDP gets the
// segment, or the connection ends. No later message declares the remains of a
// corrupt FPDU valid. Such memory lies beyond all bytes that the peer has
// written, so even a corrupt header cannot overwrite valid bytes.
//
// # Atomic operations
//
// The reader of the connection performs atomic operations, with the processor's
// own compare-and-swap on the word in memory, which is in the processor's byte
// order. Atomic operations are therefore atomic over all connections of the
// process, and against rdma.Word, which RFC 7306 leaves open (Section 5).
// Nothing else should use such a word: RDMA Writes and Reads of it are not
// atomic.
//
// An operation is performed as soon as its request is delivered. Later data of
// the connection may be placed before the response is sent, and an earlier Read
// may see the effect of the operation, unless the operation is fenced (Section
// 7). RDMA Reads and atomic operations in progress share IRD and ORD.
//
// # Life of slices
//
// Data of a work request is read (or, for an RDMA Read, written) until the
// request completes. The peer may read and write a registered slice until
// Deregister returns. A received message belongs to the Handler.
//
// The package must not know the protocol above it.
package iwarp
