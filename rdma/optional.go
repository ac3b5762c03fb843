package rdma

// A MappedSender is a Conn that can tell whether it sends well out of a mapping of
// a file.
type MappedSender interface {
	// SendsMapped tells whether Data of a WR with Reread costs no more
	// than the same in a buffer, into which the file would have to be read.
	SendsMapped() bool
}

// A ByteCounter is a Conn that can tell how many octets have moved, whatever they
// were. It is how an upper layer notices that a peer is slow and not gone.
type ByteCounter interface {
	// Traffic returns how many octets the peer has sent, and how many of
	// this end's it has acknowledged; 0 where that cannot be known.
	Traffic() (in, out uint64)
}

// A Placer is a Region that knows which of its octets the peer has written. Not every
// provider's regions are.
type Placer interface {
	Region

	// Placed tells whether the peer has written each of the first n octets, in
	// whatever order and pieces. Deregister must have returned.
	Placed(n int) bool
}

// ReadDepth is a Conn that can tell how many RDMA Reads and atomic operations
// may be outstanding on it at a time.
type ReadDepth interface {
	// ReadDepth returns how many of the peer's this end serves (IRD), and how
	// many of its own it may have outstanding (ORD), as both ends agreed.
	ReadDepth() (ird, ord int)
}

// A Remapper is a Region whose memory can be exchanged while the peer may
// reach it. Not every provider's regions are.
type Remapper interface {
	Region

	// Remap lets the peer reach b, which has the region's length, in
	// place of the memory so far. When it returns, nothing reads or changes
	// that any more. A region that is not valid any more stays so.
	Remap(b []byte)
}

// A ReaderHandoff is a Conn of which somebody else can take the reading over from an
// upper layer that turns out to keep the goroutine that reads.
type ReaderHandoff interface {
	// HandOffReader has another goroutine read on while Handler.Receive or
	// InlineCompleter.CompleteInline runs, and makes it nobody's business
	// when that returns: further messages and completions, and Closed, may come
	// before. It is called by any goroutine, once at most for each of their
	// calls, and returns before that does.
	HandOffReader()
}

// An InlineCompleter is a Completer that may keep the goroutine that reads the
// connection, as a Handler may.
type InlineCompleter interface {
	Completer

	// CompleteInline is called in place of Complete where that goroutine, of
	// a ReaderHandoff, brings the completion: nothing more is read, and of nothing
	// else the completion told, until it returns. It must not wait for anything
	// that the peer has yet to send.
	CompleteInline(Completion)
}

// A LazyBuffer lends an RDMA Read its memory when the octets come. Of many Reads under way,
// few have memory then, which is soon used again and still in the processor's caches.
type LazyBuffer interface {
	// Len returns how many octets to read.
	Len() int

	// Lend returns memory of Len octets, which belongs to the connection until
	// the work request completes. It is called once, when the first octets have
	// come, or not at all: of no octets, and where the request fails before. It
	// must neither wait nor use the connection.
	Lend() []byte
}
