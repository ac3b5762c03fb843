package main

import (
	"context"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// lines returns all lines of the session. A mount may have several to its
// server (nfs(5), nconnect).
func (s *session) lines() []*rpcrdma.Client { return append([]*rpcrdma.Client{s.line}, s.more...) }

// widen makes further lines until the session has n.
func (s *session) widen(ctx context.Context, n int, cfg func() rpcrdma.ClientConfig) error {
	for 1+len(s.more) < n {
		line, err := rpcrdma.Dial(ctx, s.dial, s.at.addr(), cfg())
		if err != nil {
			return err
		}
		s.more = append(s.more, line)
	}
	return nil
}

// caller returns a Caller that uses all lines.
func (s *session) caller() oncrpc.Caller {
	var callers []oncrpc.Caller
	for _, l := range s.lines() {
		callers = append(callers, l)
	}
	return s.held.Caller(callers...)
}

// up reports whether the server answers on all lines: calls may wait for any of
// them.
func (s *session) up() bool {
	for _, l := range s.lines() {
		if !l.Up() {
			return false
		}
	}
	return true
}
