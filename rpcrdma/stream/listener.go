package stream

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/lograte"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A Listener lets a server of ONC RPC over TCP serve RPC-over-RDMA: it is
// a net.Listener whose connections carry RPC with record marking (RFC 5531,
// Section 11). See Listen.
type Listener struct {
	// Server is the responder that receives the calls. All of its fields except
	// Handler and Waits may be set before the first Accept. Its Shutdown waits until the
	// calls under way are answered, and ends connections and listener.
	Server rpcrdma.Server

	listener rdma.Listener
	bindings []Binding
	others   oncrpc.Mux // answers calls without a binding
	calls    sync.Pool  // of *call
	log      func() *slog.Logger

	serve sync.Once
	mu    sync.Mutex
	come  sync.Cond // Accept has a reason to look
	ready []*conn
	conns map[*oncrpc.Peer]*conn // accepted or not, by their peers
	err   error                  // why there are no more
}

var _ net.Listener = (*Listener)(nil)

// Listen returns a listener for the connections that l takes. A
// connection can be accepted once its first call has arrived.
//
// The server reads calls from a connection. Each call is a record of one
// fragment, with the arguments from chunks in their places. The server may
// write the replies in any order and any number of fragments. A result that its
// program's binding finds goes to the Write chunk that the requester has
// provided, and the rest inline or to the Reply chunk.
//
// The listener itself answers calls of programs and versions without a binding:
// with PROG_UNAVAIL and PROG_MISMATCH. If a call has moved an argument that is
// not DDP-eligible, the answer is GARBAGE_ARGS (RFC 8166, Sections 6.1 and
// 4.5.2). A reply that is longer than its requester provides for becomes
// ERR_CHUNK (Section 4.5.3), and a reply that is longer than its procedure
// allows becomes SYSTEM_ERR. Written bytes that are no reply end the
// connection, because the stream behind them cannot be parsed; a reply to an
// unknown call is discarded.
//
// Two bindings must not have the same program and version.
func Listen(l rdma.Listener, bindings ...Binding) *Listener {
	s := &Listener{listener: l, bindings: bindings, conns: make(map[*oncrpc.Peer]*conn)}
	s.come.L = &s.mu
	s.log = sync.OnceValue(func() *slog.Logger { return lograte.Logger(s.Server.Log) })
	s.Server.Handler, s.Server.Waits = service{s}, true
	for _, b := range bindings {
		prog, vers := b.Program()
		s.others.Register(prog, vers, failing{oncrpc.ErrProcUnavail})
	}
	return s
}

// Accept waits for a connection (net.Listener). After Close or Server.Shutdown,
// the error is net.ErrClosed. All other errors come from the provider or
// concern the fields of Server, and are final.
func (l *Listener) Accept() (net.Conn, error) {
	l.serve.Do(func() {
		go func() {
			err := l.Server.Serve(l.listener)
			if err == nil {
				err = net.ErrClosed
			}
			l.stop(err)
		}()
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.ready) == 0 && l.err == nil {
		l.come.Wait()
	}
	if l.err != nil {
		return nil, &net.OpError{Op: "accept", Net: network, Addr: l.listener.Addr(), Err: l.err}
	}
	c := l.ready[0]
	l.ready = slices.Delete(l.ready, 0, 1)
	return c, nil
}

// Addr returns the listener's address.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Close stops listening and unblocks Accept. Accepted connections continue; the
// others are closed. Close may be called twice.
func (l *Listener) Close() error {
	l.stop(net.ErrClosed)
	err := l.listener.Close()
	return err
}

// stop closes connections that were not accepted, and makes Accept fail with
// the first of the errors.
func (l *Listener) stop(err error) {
	l.mu.Lock()
	first := l.err == nil
	if first {
		l.err = err
	}
	left := l.ready
	l.ready = nil
	l.come.Broadcast()
	l.mu.Unlock()
	for _, c := range left {
		c.Close()
	}
	if first {
		l.Server.Release(l.accepted)
	}
}

// accepted reports whether the peer has a stream. Streams that were not accepted
// have been closed by then.
func (l *Listener) accepted(peer *oncrpc.Peer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conns[peer] != nil
}

// conn returns the stream of a peer's connection, making it at the first call.
// It returns nil if the listener takes no more connections.
func (l *Listener) conn(ctx context.Context, peer *oncrpc.Peer) *conn {
	l.mu.Lock()
	c, err := l.conns[peer], l.err
	l.mu.Unlock()
	if c != nil {
		return c
	}
	under, ok := l.Server.PeerConn(peer)
	if !ok || err != nil {
		return nil
	}
	return l.add(ctx, peer, under)
}

// add makes the stream of a connection, unless another call has done so.
func (l *Listener) add(ctx context.Context, peer *oncrpc.Peer, under rpcrdma.PeerConn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.conns[peer]; c != nil || l.err != nil {
		return c
	}
	c := newConn(peer, under, l.log)
	l.conns[peer] = c
	l.ready = append(l.ready, c)
	l.come.Signal()
	context.AfterFunc(ctx, func() {
		c.lost(context.Cause(ctx))
		l.forget(c)
	})
	return c
}

// forget is called when a connection has ended.
func (l *Listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c.peer)
	if i := slices.Index(l.ready, c); i >= 0 {
		l.ready = slices.Delete(l.ready, i, i+1)
	}
}
