package rpcrdma

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/relief"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A Server is a responder: it takes RPC calls from RDMA connections. Its fields
// must not be changed after the first Serve.
type Server struct {
	// Handler answers the calls; *oncrpc.Mux is a Handler. The context passed
	// to it ends with the connection. Handler must not be nil.
	Handler oncrpc.Service

	// Inline is the length of the longest message sent or received without
	// chunks, in bytes; 0 means 4096. It is rounded down to a multiple of 1024;
	// below 1024 or above 262144 is an error.
	Inline int

	// Credits is the number of calls that each connection may have under way; 0
	// means 128; below 0 or above 4096 is an error. A requester that asks for
	// fewer is granted that number. All requesters are granted fewer while more
	// than half of MaxInline is taken and the rest would not suffice for all.
	Credits int

	// MaxPayload is the length of the longest data item, in bytes; 0 means 1
	// MiB; below 0 or above 64 MiB is an error. A call whose chunks to read are
	// longer, with an allowance for headers, gets ERR_CHUNK.
	MaxPayload int

	// MaxMemory bounds the buffers for chunks, of all connections together, in
	// bytes; 0 means 256 MiB. Buffers are counted as allocated: in sizes up to
	// twice the requested length. Less than the memory of the largest call,
	// three messages and a payload, is an error. Calls wait for memory; they do
	// not fail. A party, which is an IPv4 address or 64 bits of an IPv6
	// address, gets at most half of MaxMemory, or enough for the largest call
	// if that is more.
	MaxMemory int64

	// MaxInline bounds the other memory of calls under way, of all connections
	// together, in bytes: messages, inline replies, and the calls themselves; 0
	// means 256 MiB; below 1 MiB is an error. Above it, the party that takes
	// most loses its largest connection.
	MaxInline int64

	// MaxConns bounds the connections; 0 means DefaultMaxConns. The last eighth of them is
	// reserved for parties with at most 8. A further connection replaces an
	// idle one, with no call under way: the one idle for longest, of the party
	// that has most connections, if that party then still has at least as many
	// as the newcomer's party; otherwise of the newcomer's own party. If those
	// have only connections with calls under way, and the newcomer's party has
	// at most 8, the newcomer replaces the largest party's connection that has
	// made no progress for longest, provided that Handler Resumes (package
	// oncrpc). Otherwise the newcomer is rejected.
	MaxConns int

	// ReverseCredits is the number of calls that the programs may have under
	// way to one requester (ReverseClient), if the requester grants as many; 0
	// means 16; below 0 or above 4096 is an error.
	ReverseCredits int

	// Extensions are the offers to requesters of this project; nil offers
	// nothing.
	Extensions *ExtensionConfig

	// Kind, if not nil, tells the calls of one procedure apart that take
	// different times: of msg, an RPC call message from its XID on, Kind
	// returns any number that is the same for calls of a kind. Of a call whose
	// procedure says enough it returns 0. The message is unchecked, may be cut
	// anywhere, and lacks the data that came in chunks. Kind must be quick: a
	// connection's reader asks it before each call that it may serve.
	Kind func(msg []byte) uint32

	// Waits must be true if Handler waits for other goroutines, as that of
	// package stream does. Then no connection's reader serves calls, and only
	// MaxInline bounds how many calls are served at once.
	Waits bool

	// Trace, if not nil, returns a Trace for a call that arrives.
	Trace func() oncrpc.Trace

	// Log receives messages for the administrator; nil discards them.
	Log *slog.Logger

	setup sync.Once
	cfg   config
	err   error // of the set-up

	reverse ClientConnConfig // of calls in the reverse direction

	began    time.Time
	memory   *fairshare.Memory
	counters *fairshare.Memory // memory of the delegation counters of all connections
	inline   atomic.Int64      // bytes counted against MaxInline
	fair     atomic.Int64      // each connection's share of MaxInline
	calls    dispatcher
	watchdog relief.Watchdog
	blames   blames
	errors   errorCounts
	log      *slog.Logger
	looking  sync.Mutex // by cutStalled

	mu        sync.Mutex
	draining  bool
	listeners map[rdma.Listener]struct{}
	conns     map[*conn]struct{} // including connections being set up
	leaving   int                // of conns: chosen to be ended
	parties   fairshare.Parties[parts]
	totals    oncrpc.Totals  // except Now
	all       sync.WaitGroup // of conns; grows only while not draining
}

// Serve takes connections from l until Shutdown, and then returns nil, or until
// l fails, and then returns its error. It closes l. Several Serves may run at
// once, each with its own listener.
func (s *Server) Serve(l rdma.Listener) error {
	defer l.Close()
	if err := s.init(); err != nil {
		return err
	}
	if !s.listen(l) {
		return nil
	}
	for {
		req, err := l.Accept(context.Background()) // until Close
		switch {
		case err == nil:
			s.connect(req)
		case s.unlisten(l):
			return nil
		default:
			return fmt.Errorf("rpcrdma: %w", err)
		}
	}
}

// listen registers l, so that Shutdown closes it.
func (s *Server) listen(l rdma.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

// unlisten removes l, and reports whether l failed because of Shutdown.
func (s *Server) unlisten(l rdma.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	return s.draining
}

// connect sets up a connection. It does not block the next one.
func (s *Server) connect(req rdma.ConnRequest) {
	if c, why := s.admit(req); c == nil {
		err, peer := req.Reject(nil), peerOf(req)
		s.log.Warn("connection rejected", "peer", &peer, "reason", why, "err", err)
	} else {
		go c.start(req)
	}
}

// admit counts a new connection, or returns why the connection is rejected.
func (s *Server) admit(req rdma.ConnRequest) (c *conn, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return nil, "shutting down"
	}
	p := s.parties.Enter(req.RemoteAddr())
	if s.parties.Full(p, len(s.conns)-s.leaving, s.cfg.maxConns) && !s.makeRoom(p) {
		s.parties.Leave(p)
		s.totals.Refused++
		return nil, "too many connections"
	}
	c = newConn(s, p, req)
	s.conns[c] = struct{}{}
	s.totals.Total++
	s.shareOut()
	s.all.Add(1)
	return c, ""
}

// forget is called once for each connection, when its goroutines are done.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	if c.leaving {
		s.leaving--
	}
	s.shareOut()
	s.parties.Leave(c.party)
	s.mu.Unlock()
	s.all.Done()
}

// Shutdown ends the server: it takes no more connections and no more calls,
// waits until calls under way are answered, and closes the connections. If ctx
// ends first, Shutdown aborts the connections and returns the cause, without
// waiting for handlers that are still running. The server cannot be used again.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.init(); err != nil {
		return err
	}
	s.mu.Lock()
	s.draining = true
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.drain()
	}
	s.mu.Unlock()

	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.all.Wait()
		s.calls.close()
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.abort(context.Cause(ctx))
	}
	return context.Cause(ctx)
}
