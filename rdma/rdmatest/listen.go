package rdmatest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A Listener takes connections from its own Dial. It implements rdma.Listener.
type Listener struct {
	t     testing.TB
	calls chan *dialled
	done  chan struct{}
	once  sync.Once
}

var _ rdma.Listener = (*Listener)(nil)

// Listen returns a listener. The connections made through it are cut when the
// test ends, if they have not ended before.
func Listen(t testing.TB) *Listener {
	l := &Listener{t: t, calls: make(chan *dialled), done: make(chan struct{})}
	t.Cleanup(func() { l.Close() })
	return l
}

// A dialled is a peer that waits in Dial.
type dialled struct {
	t      testing.TB
	cfg    rdma.ConnConfig
	answer chan answer // room for one
}

type answer struct {
	conn *Conn
	err  error
}

// Dial connects to the listener, and waits until its user has accepted or
// rejected the connection.
func (l *Listener) Dial(ctx context.Context, cfg rdma.ConnConfig) (*Conn, error) {
	d := &dialled{t: l.t, cfg: cfg, answer: make(chan answer, 1)}
	select {
	case l.calls <- d:
	case <-l.done:
		return nil, fmt.Errorf("rdmatest: listener: %w", rdma.ErrClosed)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case a := <-d.answer:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept waits for the next Dial.
func (l *Listener) Accept(ctx context.Context) (rdma.ConnRequest, error) {
	select {
	case d := <-l.calls:
		return d, nil
	case <-l.done:
		return nil, fmt.Errorf("rdmatest: listener: %w", rdma.ErrClosed)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Addr returns an address of no network.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 20049} }

// Close unblocks Accept and Dial.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (d *dialled) PrivateData() []byte  { return d.cfg.PrivateData }
func (d *dialled) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 20049} }

func (d *dialled) Accept(cfg rdma.ConnConfig) (rdma.Conn, error) {
	theirs, ours := Pair(d.t, d.cfg, cfg)
	d.answer <- answer{conn: theirs}
	return ours, nil
}

func (d *dialled) Reject([]byte) error {
	d.answer <- answer{err: ErrRejected}
	return nil
}
