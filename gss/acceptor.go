package gss

import "context"

// An Acceptor makes contexts for initiators that it believes. Many goroutines
// may use it at once.
type Acceptor interface {
	// Accept takes the first token of an initiator (GSS_Accept_sec_context, RFC
	// 2743, Section 2.2.2). bindings are the channel bindings of the connection
	// that carried it, or nil if the connection has none. Errors are of type
	// *Error, which has the token for the initiator if there is one.
	Accept(ctx context.Context, token, bindings []byte) (Accepted, error)
}

// Accepted is a context that is complete at the acceptor.
type Accepted struct {
	Context   Context
	Token     []byte // for the initiator, which completes the context with it if it is not empty
	Principal Principal
}

// A Principal is a name that a mechanism has authenticated.
type Principal struct {
	Name  []string // components, of any bytes, at least one
	Realm string
}
