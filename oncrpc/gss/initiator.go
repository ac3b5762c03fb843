package gss

import "context"

// An Initiator establishes one context with an acceptor. Each attempt needs its own
// Initiator, because acceptors reject a token that they have seen.
type Initiator interface {
	// Step accepts the acceptor's reply, nil at first, and returns the next token for the
	// acceptor (GSS_Init_sec_context, RFC 2743, Section 2.2.1). The context is nil until
	// it is complete; then there may be no token. Errors have type *Error if the
	// mechanism has a reason.
	Step(ctx context.Context, answer []byte) (token []byte, c Context, err error)

	// Close releases the Initiator's resources, whether the context is complete or not.
	// It must be called once.
	Close()
}
