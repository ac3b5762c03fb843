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
// A connection has one goroutine, which reads. There is none that writes: who
// posts finds the socket free and writes at once, or leaves the work to the
// one who is writing; only where the socket is full a goroutine waits for it.
//
// # Placement
//
// The payload of a tagged segment goes from the socket straight into the
// registered memory, after STag, stream, rights and bounds have been checked,
// segment by segment. Only with CRCs on it is kept back until the CRC of the
// whole FPDU has been checked, and then copied: nothing that is perhaps broken
// is ever placed.
//
// # Atomic operations
//
// They are done by whoever reads the connection, with the processor's own
// compare-and-swap on the word in memory, which is in the processor's byte
// order. So they are atomic over all connections of the process, and against
// rdma.Word, which RFC 7306 leaves open (Section 5). A word should be used by
// nothing else: RDMA Writes and Reads of it are not atomic.
//
// An operation is done as soon as its request is delivered. What comes after it
// on the connection may be placed before its response is sent, and a Read before
// it may see what it does, unless it is fenced (Section 7). RDMA Reads and atomic
// operations under way share IRD and ORD.
//
// # Life of slices
//
// Data of a work request is read (or, for an RDMA Read, written) until the
// request completes. A registered slice may be read and written by the peer
// until Deregister returns. A received message is the Handler's.
//
// The package must not know what is sent over it.
package iwarp
