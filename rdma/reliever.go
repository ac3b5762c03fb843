package rdma

// A Reliever is a Conn of which somebody else can take the reading over from a
// Handler that turns out to keep it.
type Reliever interface {
	// Relieve has another goroutine read on while Handler.Receive runs, and
	// makes it nobody's business when that returns: further messages, and
	// Closed, may come before. It is called by any goroutine, once at most for
	// a Receive, and returns before that does.
	Relieve()
}
