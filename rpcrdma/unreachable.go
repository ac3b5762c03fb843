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

	// ErrSilent is why the connection to a server that gives no sign of
	// life is ended.
	ErrSilent = errors.New("rpcrdma: no sign of life")

	// errUnwanted is why an attempt to connect is ended.
	errUnwanted = errors.New("rpcrdma: no call waits for a connection")
)

// An UnreachableError tells that a call was given up. It wraps ErrUnreachable
// and both causes, one of which may be that an attempt to connect timed out: it
// says nothing about the caller's own context.
type UnreachableError struct {
	Server string        // host and port
	Tried  time.Duration // how long the call had no server
	Lost   error         // why the connection was lost
	Last   error         // why it could not be replaced, at the last attempt; nil: there was none
}

// Error names the server, the time and the last cause.
func (e *UnreachableError) Error() string {
	cause := e.Last
	if cause == nil {
		cause = e.Lost
	}
	return fmt.Sprintf("rpcrdma: server %s unreachable for %v: %v", e.Server, e.Tried.Round(time.Millisecond), cause)
}

// Unwrap returns what the error is, and its causes.
func (e *UnreachableError) Unwrap() []error {
	errs := []error{ErrUnreachable, e.Lost}
	if e.Last != nil {
		errs = append(errs, e.Last)
	}
	return errs
}
