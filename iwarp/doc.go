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
// While the reader hands over what one read has brought, what is posted is held
// back, and then leaves together: calls that came together and are answered in
// Handler.Receive cost one system call to read and one to write. So nobody may
// wait in Receive for the completion of what was posted there.
//
// # Waiting
//
// TCP sockets of the kernel are not in the net package's poller. A reader that has
// nothing to read looks again for a moment, then waits in the kernel, where few do
// so, for some milliseconds if it is within a message or hardly any other
// connection is busy, and else by a poller that is told of the connections that
// wait and of no others. One that is idle has no thread, and no
// memory but its state.
//
// # Placement
//
// The payload of a tagged segment goes from the socket straight into the
// registered memory, after STag, stream, rights and bounds have been checked,
// segment by segment. Of a large message many are read at once, each header to
// where it is expected, if what the memory holds counts for nothing yet: that of
// this end's RDMA Reads, and of regions with rdma.Scratch.
//
// With CRCs on, an FPDU is kept back until the CRC of the whole of it has been
// checked, and then copied: nothing that is perhaps broken comes to a place that
// anybody may look at. RFC 5044, Section 6, wants an FPDU checked before DDP has it.
// Where what the memory holds counts for nothing yet, that is kept without the
// copy: the payload is read to its place, checked there, and DDP is told of it, or
// the connection ends; what a broken FPDU leaves behind is what nobody will be told
// of. Such memory is never behind what the peer has written, even if the header is
// what is broken.
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
