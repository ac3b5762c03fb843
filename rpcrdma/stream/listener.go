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

// A Listener makes an ONC RPC over TCP server available over RPC-over-RDMA: it
// is a net.Listener whose connections carry RPC with record marking (RFC 5531,
// Section 11). See Listen.
type Listener struct {
	// Server is the responder that receives the calls. All of its fields except Handler and Waits
	// may be set before the first Accept. Its Shutdown waits until the calls in flight are
	// answered, and closes connections and listener.
	Server rpcrdma.Server

	listener rdma.Listener
	bindings []Binding
	fallback oncrpc.Mux // serves calls without a binding
	calls    sync.Pool  // holds *call
	log      func() *slog.Logger

	serveOnce sync.Once
	mu        sync.Mutex
	changed   sync.Cond // signals Accept to recheck
	ready     []*conn
	conns     map[*oncrpc.Peer]*conn // accepted or not, by their peers
	err       error                  // why there are no more
}

var _ net.Listener = (*Listener)(nil)

// Listen returns a listener for the connections that l accepts. A connection
// can be accepted once its first call has arrived.
//
// The server reads calls from a connection. Each call is a record with one
// fragment, with the arguments from chunks in their places. The server may
// write the replies in any order and any number of fragments. A result that its
// program's binding finds goes to the Write chunk that the requester has
// provided, and the rest inline or to the Reply chunk.
//
// The listener itself answers calls to programs and versions without a binding:
// with PROG_UNAVAIL and PROG_MISMATCH. If a call has moved an argument that is
// not DDP-eligible, the answer is GARBAGE_ARGS (RFC 8166, Sections 6.1 and
// 4.5.2). A reply that is longer than its requester provides for becomes
// ERR_CHUNK (Section 4.5.3), and a reply that is longer than its procedure
// allows becomes SYSTEM_ERR. Written bytes that do not form a reply terminate
// the connection, because the stream after them cannot be parsed; a reply to an
// unknown call is discarded.
//
// Two bindings must not have the same program and version.
func Listen(l rdma.Listener, bindings ...Binding) *Listener {
	s := &Listener{listener: l, bindings: bindings, conns: make(map[*oncrpc.Peer]*conn)}
	s.changed.L = &s.mu
	s.log = sync.OnceValue(func() *slog.Logger { return lograte.Logger(s.Server.Log) })
	s.Server.Handler, s.Server.Waits = service{s}, true
	for _, b := range bindings {
		prog, vers := b.Program()
		s.fallback.Register(prog, vers, failingProgram{oncrpc.ErrProcUnavail})
	}
	return s
}

// Accept waits for a connection (net.Listener). After Close or Server.Shutdown,
// the error is net.ErrClosed. All other errors come from the provider or
// concern Server's fields, and are final.
func (l *Listener) Accept() (net.Conn, error) {
	l.serveOnce.Do(func() {
		go func() {
			err := l.Server.Serve(l.listener)
			if err == nil {
				err = net.ErrClosed
			}
			l.stopListening(err)
		}()
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.ready) == 0 && l.err == nil {
		l.changed.Wait()
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
	l.stopListening(net.ErrClosed)
	err := l.listener.Close()
	return err
}

// stopListening closes connections that were not accepted, and makes Accept fail with the first
// error.
func (l *Listener) stopListening(err error) {
	l.mu.Lock()
	first := l.err == nil
	if first {
		l.err = err
	}
	left := l.ready
	l.ready = nil
	l.changed.Broadcast()
	l.mu.Unlock()
	for _, c := range left {
		c.Close()
	}
	if first {
		l.Server.Release(l.isAccepted)
	}
}

// isAccepted reports whether the peer has a stream. Streams that were not accepted
// have been closed by then.
func (l *Listener) isAccepted(peer *oncrpc.Peer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conns[peer] != nil
}

// streamFor returns the stream for a peer's connection, creating it at the first call. It returns
// nil if the listener accepts no more connections.
func (l *Listener) streamFor(ctx context.Context, peer *oncrpc.Peer) *conn {
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
	return l.addStream(ctx, peer, under)
}

// addStream creates the stream for a connection, unless another call has done
// so.
func (l *Listener) addStream(ctx context.Context, peer *oncrpc.Peer, under rpcrdma.PeerConn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.conns[peer]; c != nil || l.err != nil {
		return c
	}
	c := newConn(peer, under, l.log)
	l.conns[peer] = c
	l.ready = append(l.ready, c)
	l.changed.Signal()
	context.AfterFunc(ctx, func() {
		c.handleLost(context.Cause(ctx))
		l.removeStream(c)
	})
	return c
}

// removeStream is called when a connection has ended.
func (l *Listener) removeStream(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c.peer)
	if i := slices.Index(l.ready, c); i >= 0 {
		l.ready = slices.Delete(l.ready, i, i+1)
	}
}
