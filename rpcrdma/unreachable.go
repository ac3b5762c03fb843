package rpcrdma

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a Client.
var (
	// ErrUnreachable is wrapped by the error of a call that had no server
	// for longer than ClientConfig.GiveUp.
	ErrUnreachable = errors.New("rpcrdma: server unreachable")

	// ErrSilent is the cause of ending a connection whose server gives no sign
	// of life.
	ErrSilent = errors.New("rpcrdma: no sign of life")

	// errUnwanted is the cause of ending an attempt to connect.
	errUnwanted = errors.New("rpcrdma: no call waits for a connection")
)

// An UnreachableError reports that a call was given up. It wraps ErrUnreachable
// and both causes. A cause may be the timeout of an attempt to connect, which
// says nothing about the caller's own context.
type UnreachableError struct {
	Server string        // host and port
	Tried  time.Duration // how long the call had no server
	Lost   error         // why the connection was lost
	Last   error         // why the last attempt to replace it failed; nil: no attempt was made
}

// Error names the server, the time and the last cause.
func (e *UnreachableError) Error() string {
	cause := e.Last
	if cause == nil {
		cause = e.Lost
	}
	return fmt.Sprintf("rpcrdma: server %s unreachable for %v: %v", e.Server, e.Tried.Round(time.Millisecond), cause)
}

// Unwrap returns ErrUnreachable and the causes.
func (e *UnreachableError) Unwrap() []error {
	errs := []error{ErrUnreachable, e.Lost}
	if e.Last != nil {
		errs = append(errs, e.Last)
	}
	return errs
}
