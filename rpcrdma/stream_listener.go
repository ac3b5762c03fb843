package rpcrdma

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A StreamListener lets a server of ONC RPC over TCP serve RPC-over-RDMA: it is
// a net.Listener whose connections carry RPC with record marking (RFC 5531,
// Section 11). See NewStreamListener.
type StreamListener struct {
	// Server is the responder that receives the calls. All of its fields except
	// Handler may be set before the first Accept. Its Shutdown waits until the
	// calls under way are answered, and ends connections and listener.
	Server Server

	listener rdma.Listener
	bindings []Binding
	others   oncrpc.Mux // answers calls without a binding
	calls    sync.Pool  // of *streamCall

	serve sync.Once
	mu    sync.Mutex
	come  sync.Cond // Accept has a reason to look
	ready []*streamConn
	conns map[*oncrpc.Peer]*streamConn // accepted or not, by their peers
	err   error                        // why there are no more
}

var _ net.Listener = (*StreamListener)(nil)

// NewStreamListener returns a listener for the connections that l takes. A
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
func NewStreamListener(l rdma.Listener, bindings ...Binding) *StreamListener {
	s := &StreamListener{listener: l, bindings: bindings, conns: make(map[*oncrpc.Peer]*streamConn)}
	s.come.L = &s.mu
	s.Server.Handler, s.Server.waits = streamService{s}, true
	for _, b := range bindings {
		prog, vers := b.Program()
		s.others.Register(prog, vers, failing{oncrpc.ErrProcUnavail})
	}
	return s
}

// Accept waits for a connection (net.Listener). After Close or Server.Shutdown,
// the error is net.ErrClosed. All other errors come from the provider or
// concern the fields of Server, and are final.
func (l *StreamListener) Accept() (net.Conn, error) {
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
func (l *StreamListener) Addr() net.Addr { return l.listener.Addr() }

// Close stops listening and unblocks Accept. Accepted connections continue; the
// others are closed. Close may be called twice.
func (l *StreamListener) Close() error {
	l.stop(net.ErrClosed)
	err := l.listener.Close()
	return err
}

// stop closes connections that were not accepted, and makes Accept fail with
// the first of the errors.
func (l *StreamListener) stop(err error) {
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
		l.Server.release(l.accepted)
	}
}

// accepted reports whether c has a stream. Streams that were not accepted have
// been closed by then.
func (l *StreamListener) accepted(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conns[&c.peer] != nil
}

// release stops taking connections, drains the connections for which keep
// returns false, and ends the server's goroutines when the last connection is
// gone.
func (s *Server) release(keep func(*conn) bool) {
	if s.init() != nil {
		return
	}
	s.mu.Lock()
	s.draining = true
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		if !keep(c) {
			c.drain()
		}
	}
	s.mu.Unlock()
	go func() {
		s.all.Wait()
		s.calls.close()
	}()
}

// conn returns the stream of a peer's connection, making it at the first call.
// It returns nil if the listener takes no more connections.
func (l *StreamListener) conn(ctx context.Context, peer *oncrpc.Peer) *streamConn {
	l.mu.Lock()
	c, err := l.conns[peer], l.err
	l.mu.Unlock()
	if c != nil {
		return c
	}
	under := l.Server.connOf(peer)
	if under == nil || err != nil {
		return nil
	}
	return l.add(ctx, under)
}

// add makes the stream of a connection, unless another call has done so.
func (l *StreamListener) add(ctx context.Context, under *conn) *streamConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.conns[&under.peer]; c != nil || l.err != nil {
		return c
	}
	c := newStreamConn(under)
	l.conns[&under.peer] = c
	l.ready = append(l.ready, c)
	l.come.Signal()
	context.AfterFunc(ctx, func() {
		c.lost(context.Cause(ctx))
		l.forget(c)
	})
	return c
}

// forget is called when a connection has ended.
func (l *StreamListener) forget(c *streamConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, &c.under.peer)
	if i := slices.Index(l.ready, c); i >= 0 {
		l.ready = slices.Delete(l.ready, i, i+1)
	}
}

// connOf returns the connection whose peer was passed to a handler.
func (s *Server) connOf(peer *oncrpc.Peer) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if &c.peer == peer {
			return c
		}
	}
	return nil
}
