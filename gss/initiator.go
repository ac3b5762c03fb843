package gss

import "context"

// An Initiator makes one context with an acceptor. Each attempt needs an Initiator
// of its own, because acceptors refuse a token that they have seen.
type Initiator interface {
	// Step takes the acceptor's answer, nil at first, and returns the next token
	// for the acceptor (GSS_Init_sec_context, RFC 2743, Section 2.2.1). The context
	// is nil until it is complete; then there may be no token. Errors are of type
	// *Error if the mechanism has a reason.
	Step(ctx context.Context, answer []byte) (token []byte, c Context, err error)

	// Close gives back what the Initiator holds, whether the context is complete or
	// not. It must be called once.
	Close()
}
