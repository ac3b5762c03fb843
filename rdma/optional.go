package rdma

// A MappedSender is a Conn that reports whether it can send efficiently from a
// file mapping.
type MappedSender interface {
	// SendsMapped reports whether Data in a WR with Reread costs no more than
	// the same data in a buffer, into which the file would have to be read. The
	// result may change, for instance while disks do not respond.
	SendsMapped() bool
}

// A ByteCounter is a Conn that reports the number of transferred bytes. An
// upper layer uses it to distinguish a slow peer from a dead one.
type ByteCounter interface {
	// Traffic returns the number of bytes that the peer has sent, and the
	// number of bytes from this end that the peer has acknowledged; 0 if
	// unknown.
	Traffic() (in, out uint64)
}

// A SourceWaiter is a Conn that may have to wait for the data that it sends, when the data is in a
// file mapping (WR.Reread). A lack of progress is then not the peer's fault.
type SourceWaiter interface {
	// AwaitsSource reports whether the data cannot be read at present, since
	// its disk does not respond. It returns quickly. If it returns true, the
	// upper layer should not treat a lack of progress as the peer's fault.
	AwaitsSource() bool
}

// A LossDetector is a Conn that can detect its end before Handler.Closed is called, which may be
// late.
type LossDetector interface {
	// IsLost reports whether the connection has ended, or the peer has probably abandoned it. It
	// returns quickly.
	IsLost() bool
}

// A Placer is a Region that records which bytes the peer has written. Not every
// provider's regions are Placers.
type Placer interface {
	Region

	// Placed reports whether the peer has written all of the first n bytes, in
	// any order and any pieces. Deregister must have returned.
	Placed(n int) bool
}

// ReadDepth is a Conn that reports the number of RDMA Reads and atomic
// operations that may be outstanding on it.
type ReadDepth interface {
	// ReadDepth returns the negotiated number of the peer's operations that
	// this end serves concurrently (IRD), and of its own that this end may have
	// outstanding (ORD).
	ReadDepth() (ird, ord int)
}

// A Remapper is a Region whose memory can be replaced while the peer may access
// it. Not every provider's regions are Remappers.
type Remapper interface {
	Region

	// Remap gives the peer access to b, which has the region's length, in place
	// of the previous memory. When Remap returns, nothing reads or changes the
	// previous memory. An invalid region stays invalid.
	Remap(b []byte)
}

// A ReaderHandoff is a Conn on which another goroutine can take over reading,
// if an upper layer blocks the reading goroutine.
type ReaderHandoff interface {
	// HandOffReader makes another goroutine continue reading while
	// Handler.Receive or InlineCompleter.CompleteInline runs. The goroutine
	// that runs that method is no longer the reader when the method returns:
	// further messages and completions, and Closed, may be delivered before.
	// Any goroutine may call HandOffReader, at most once per call to those
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

// A LazyBuffer lends an RDMA Read its memory when the bytes arrive. Among many
// Reads in flight, only few then hold memory, which is soon reused while it is
// in the processor's caches.
type LazyBuffer interface {
	// Len returns the number of bytes to read.
	Len() int

	// Lend returns memory of Len bytes, which belongs to the connection until
	// the work request completes. It is called once, when the first bytes have
	// arrived. It is not called if Len is 0, or if the request fails before.
	// Lend must neither wait nor use the connection.
	Lend() []byte
}
