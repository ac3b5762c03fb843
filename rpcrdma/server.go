package rpcrdma

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// A Server is a responder: it takes RPC calls from RDMA connections. Its fields
// are not changed after the first Serve.
type Server struct {
	// Handler answers the calls; *oncrpc.Mux is one. The context that it
	// gets ends with the connection. It must not be nil.
	Handler oncrpc.Service

	// Inline is the length of the longest message sent or received without
	// chunks, in octets; 0 means 4096. It is rounded down to a multiple of
	// 1024; below 1024 or above 262144 is an error.
	Inline int

	// Credits is the number of calls that each connection may have under
	// way; 0 means 128; below 0 or above 4096 is an error. A requester that
	// asks for fewer is granted those; all are granted fewer while more
	// than half of MaxInline is taken and would not do for all.
	Credits int

	// MaxPayload is the length of the longest data item, in octets; 0
	// means 1 MiB; below 0 or above 64 MiB is an error. A call whose
	// chunks to read are longer, headers allowed for, gets ERR_CHUNK.
	MaxPayload int

	// MaxMemory bounds the buffers for chunks, of all connections
	// together, in octets, as they are allocated: in sizes that are up to
	// twice what is asked for; 0 means 256 MiB. Less than the largest call
	// can have, three messages and a payload, is an error. Calls wait for
	// memory, they do not fail. One party, which is an IPv4 address or 64
	// bits of an IPv6 one, gets no more than half of it where that is enough
	// for the largest call.
	MaxMemory int64

	// MaxInline bounds what calls under way take beside that, of all
	// connections together, in octets: messages, inline replies, and what
	// is known of them; 0 means 256 MiB; below 1 MiB is an error. Above it
	// the party that takes most loses the connection that does.
	MaxInline int64

	// MaxConns bounds the connections; 0 means 1024. The last eighth of them is
	// for parties with no more than 8. One more takes the place of the one that
	// has had no call under way for longest, of the party that has most, if
	// that keeps no fewer than the newcomer's has then, or else of the
	// newcomer's own. Where all have calls under way, a newcomer's with no more
	// than 8 takes the place of the one of which nothing has moved for longest,
	// if Handler Resumes (package oncrpc). Else it is rejected.
	MaxConns int

	// ReverseCredits is the number of calls that the programs may have under
	// way to one requester (ReverseClient), if that grants as many; 0 means 16;
	// below 0 or above 4096 is an error.
	ReverseCredits int

	// Extensions is what to offer to requesters of this project; nil:
	// nothing.
	Extensions *ExtensionConfig

	// Log takes what an administrator wants to know; nil discards it.
	Log *slog.Logger

	setup sync.Once
	cfg   config
	err   error // of the set-up

	reverse ClientConnConfig // of calls in the reverse direction

	began    time.Time
	memory   *fairshare.Memory
	counters *fairshare.Memory // what the delegation counters of all connections take
	inline   atomic.Int64      // octets that MaxInline bounds, and
	fair     atomic.Int64      // each connection's part of that bound
	calls    dispatcher
	watchdog watchdog
	slow     time.Duration // what a call takes that is not the reader's: see slowCall
	waits    bool          // Handler waits for others: readers serve nothing
	blames   blames
	errors   errorCounts
	log      *slog.Logger

	mu        sync.Mutex
	draining  bool
	listeners map[rdma.Listener]struct{}
	conns     map[*conn]struct{} // those being set up included
	leaving   int                // of conns: those that have lost their places
	parties   fairshare.Parties[parts]
	totals    oncrpc.Totals  // but Now
	all       sync.WaitGroup // of conns; grows only while not draining
}

// Serve takes connections from l until Shutdown, and then returns nil, or
// until l fails, and then returns its error. It closes l. Several Serves may
// run at once, each with its own listener.
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

// listen takes l up for Shutdown to close.
func (s *Server) listen(l rdma.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

// unlisten gives l up, and tells whether it failed because of Shutdown.
func (s *Server) unlisten(l rdma.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	return s.draining
}

// connect sets up a connection without holding up the next.
func (s *Server) connect(req rdma.ConnRequest) {
	if c, why := s.admit(req); c == nil {
		err, peer := req.Reject(nil), peerOf(req)
		s.log.Warn("connection rejected", "peer", &peer, "reason", why, "err", err)
	} else {
		go c.start(req)
	}
}

// admit counts a new connection, or says why there is to be none.
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

// forget is called once for each connection, when nothing of it runs.
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
// lets those under way be answered, and closes the connections. When ctx ends
// first, it aborts the connections and returns the cause, without waiting for
// handlers that are still running. The server cannot be used again.
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
