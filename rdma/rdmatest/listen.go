package rdmatest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A Listener accepts connections from its own Dial. It implements
// rdma.Listener.
type Listener struct {
	t         testing.TB
	dials     chan *dialRequest
	done      chan struct{}
	closeOnce sync.Once
}

var _ rdma.Listener = (*Listener)(nil)

// Listen returns a listener. Connections that are still open when the test ends are
// aborted.
func Listen(t testing.TB) *Listener {
	l := &Listener{t: t, dials: make(chan *dialRequest), done: make(chan struct{})}
	t.Cleanup(func() { l.Close() })
	return l
}

// A dialRequest is a pending Dial.
type dialRequest struct {
	t      testing.TB
	cfg    rdma.ConnConfig
	result chan dialResult // capacity 1
}

type dialResult struct {
	conn *Conn
	err  error
}

// Dial connects to the listener, and waits until its user has accepted or
// rejected the connection.
func (l *Listener) Dial(ctx context.Context, cfg rdma.ConnConfig) (*Conn, error) {
	d := &dialRequest{t: l.t, cfg: cfg, result: make(chan dialResult, 1)}
	select {
	case l.dials <- d:
	case <-l.done:
		return nil, fmt.Errorf("rdmatest: listener: %w", rdma.ErrClosed)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case a := <-d.result:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept waits for the next Dial.
func (l *Listener) Accept(ctx context.Context) (rdma.ConnRequest, error) {
	select {
	case d := <-l.dials:
		return d, nil
	case <-l.done:
		return nil, fmt.Errorf("rdmatest: listener: %w", rdma.ErrClosed)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Addr returns a documentation address.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 20049} }

// Close unblocks Accept and Dial.
func (l *Listener) Close() error {
	l.closeOnce.Do(func() { close(l.done) })
	return nil
}

func (d *dialRequest) PrivateData() []byte { return d.cfg.PrivateData }
func (d *dialRequest) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 20049}
}

func (d *dialRequest) Accept(cfg rdma.ConnConfig) (rdma.Conn, error) {
	theirs, ours := Pair(d.t, d.cfg, cfg)
	d.result <- dialResult{conn: theirs}
	return ours, nil
}

func (d *dialRequest) Reject([]byte) error {
	d.result <- dialResult{err: ErrRejected}
	return nil
}
