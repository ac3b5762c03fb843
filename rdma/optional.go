package rdma

// A MappedSender is a Conn that reports whether it can send efficiently from a
// mapping of a file.
type MappedSender interface {
	// SendsMapped reports whether Data of a WR with Reread costs no more than
	// the same data in a buffer, into which the file would have to be read.
	SendsMapped() bool
}

// A ByteCounter is a Conn that reports how many bytes of any kind have moved.
// An upper layer uses it to distinguish a slow peer from a dead one.
type ByteCounter interface {
	// Traffic returns how many bytes the peer has sent, and how many of this
	// end's bytes the peer has acknowledged; 0 if unknown.
	Traffic() (in, out uint64)
}

// A SourceWaiter is a Conn that may have to wait for the data that it sends, when these
// are in the mapping of a file (WR.Reread). The peer is not to blame meanwhile.
type SourceWaiter interface {
	// AwaitsSource reports whether the data cannot be read at present, since
	// their disk does not answer. It returns soon. The upper layer should then
	// not judge whether the peer moves.
	AwaitsSource() bool
}

// A Placer is a Region that knows which of its bytes the peer has written. Not
// every provider's regions are Placers.
type Placer interface {
	Region

	// Placed reports whether the peer has written each of the first n bytes, in
	// any order and pieces. Deregister must have returned.
	Placed(n int) bool
}

// ReadDepth is a Conn that reports how many RDMA Reads and atomic operations
// may be outstanding on it at a time.
type ReadDepth interface {
	// ReadDepth returns how many of the peer's operations this end serves
	// (IRD), and how many of its own this end may have outstanding (ORD), as
	// both ends agreed.
	ReadDepth() (ird, ord int)
}

// A Remapper is a Region whose memory can be exchanged while the peer may reach
// it. Not every provider's regions are Remappers.
type Remapper interface {
	Region

	// Remap lets the peer reach b, which has the region's length, in place of
	// the previous memory. When Remap returns, nothing reads or changes the
	// previous memory any more. An invalid region stays invalid.
	Remap(b []byte)
}

// A ReaderHandoff is a Conn whose reading another goroutine can take over, if
// an upper layer turns out to block the goroutine that reads.
type ReaderHandoff interface {
	// HandOffReader makes another goroutine continue reading while
	// Handler.Receive or InlineCompleter.CompleteInline runs. The calling
	// goroutine no longer is the reader when that method returns: further
	// messages and completions, and Closed, may be delivered before. Any
	// goroutine may call HandOffReader, at most once for each call of those
	// methods; the method must not return before HandOffReader has.
	HandOffReader()
}

// An InlineCompleter is a Completer that may occupy the goroutine that reads
// the connection, as a Handler may.
type InlineCompleter interface {
	Completer

	// CompleteInline is called in place of Complete if the reading goroutine of
	// a ReaderHandoff delivers the completion. Nothing more is read or
	// completed until CompleteInline returns. It must not wait for anything
	// that the peer has yet to send.
	CompleteInline(Completion)
}

// A LazyBuffer lends an RDMA Read its memory when the bytes arrive. Of many
// Reads under way, only few then hold memory, which is soon reused while it is
// in the processor's caches.
type LazyBuffer interface {
	// Len returns how many bytes to read.
	Len() int

	// Lend returns memory of Len bytes, which belongs to the connection until
	// the work request completes. It is called once, when the first bytes have
	// arrived. It is not called if Len is 0, or if the request fails before.
	// Lend must neither wait nor use the connection.
	Lend() []byte
}
