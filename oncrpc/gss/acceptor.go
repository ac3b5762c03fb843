package gss

import "context"

// An Acceptor establishes contexts for initiators that it authenticates. It is safe for
// concurrent use.
type Acceptor interface {
	// Accept accepts an initiator's first token (GSS_Accept_sec_context, RFC 2743,
	// Section 2.2.2). bindings are the channel bindings of the connection that carried
	// it, or nil if the connection has none. Errors have type *Error, which contains the
	// token for the initiator if there is one.
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
	Name  []string // components, which may contain any bytes, at least one
	Realm string
}
