package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// mountError is the error of the MOUNT service, but for refusals, which
// noExport explains.
func mountError(ctx context.Context, addr string, err error) error {
	var search *nfsclient.SearchError
	e := &stepError{at: addr, step: "MOUNT", err: err}
	switch {
	case ended(ctx):
		return context.Cause(ctx)
	case errors.Is(err, rdma.ErrClosed):
		return lostError(addr, err)
	case errors.As(err, &search):
		return fmt.Errorf("%s: MOUNT: %w", addr, search) // it says what to change
	case timedOut(ctx, err):
		e.what, e.remedy = "the service does not answer", "see whether the server's mountd hangs, and restart it"
	default:
		e.what, e.remedy = err.Error(), "see the log of the server's mountd"
	}
	return e
}
