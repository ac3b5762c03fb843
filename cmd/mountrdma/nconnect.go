package main

import (
	"context"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A bundle is several lines to one server, over which calls go in turn (nfs(5),
// nconnect): one may be held up, by a lost segment or the processor that serves
// it, while others go on. Calls of which one depends on another wait for the
// answer anyway, so it does not matter which way they go.
type bundle struct {
	lines []*rpcrdma.Line
	last  atomic.Uint32
}

// bundle returns the session's line and as many more as make n.
func (s *session) bundle(ctx context.Context, n int, cfg rpcrdma.LineConfig) (*bundle, error) {
	b := &bundle{lines: []*rpcrdma.Line{s.line}}
	for len(b.lines) < n {
		line, err := rpcrdma.Connect(ctx, s.dial, s.at.addr(), cfg)
		if err != nil {
			return nil, err
		}
		s.more = append(s.more, line)
		b.lines = append(b.lines, line)
	}
	return b, nil
}

// Call implements oncrpc.Caller.
func (b *bundle) Call(ctx context.Context, x *oncrpc.Exchange) error {
	return b.lines[int(b.last.Add(1)%uint32(len(b.lines)))].Call(ctx, x)
}

// up tells whether the server answers on all lines: calls may wait for any.
func (b *bundle) up() bool {
	for _, l := range b.lines {
		if !l.Up() {
			return false
		}
	}
	return true
}
