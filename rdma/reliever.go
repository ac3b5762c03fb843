package rdma

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
