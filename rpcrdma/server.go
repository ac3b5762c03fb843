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

// A Server is a responder: it receives RPC calls over RDMA connections. Its
// fields must not be changed after the first Serve.
type Server struct {
	// Handler serves the calls; *oncrpc.Mux is a Handler. The context passed to
	// it ends with the connection. Handler must not be nil.
	Handler oncrpc.Service

	// Inline is the maximum length, in bytes, of a message sent or received
	// without chunks; 0 means 4096. It is rounded down to a multiple of 1024;
	// below 1024 or above 262144 is an error.
	Inline int

	// Credits is the number of calls that each connection may have in flight; 0
	// means 128; below 0 or above 4096 is an error. A requester that requests
	// fewer is granted that number. All requesters are granted fewer while more
	// than half of MaxInline is in use and the rest would not suffice for all.
	Credits int

	// MaxPayload is the maximum data item length, in bytes; 0 means 1 MiB;
	// below 0 or above 64 MiB is an error. A call whose Read chunks are longer,
	// with an allowance for headers, gets ERR_CHUNK.
	MaxPayload int

	// MaxMemory bounds the chunk buffers, over all connections, in bytes; 0
	// means 256 MiB. Buffers are counted as allocated: in sizes up to twice the
	// requested length. Less than the memory for the largest call, three
	// messages and a payload, is an error. Calls wait for memory; they do not
	// fail. A party, which is an IPv4 address or 64 bits of an IPv6 address,
	// gets at most half of MaxMemory, or enough for the largest call if that is
	// more.
	MaxMemory int64

	// MaxInline bounds the other memory for calls in flight, over all
	// connections, in bytes: messages, inline replies, and the calls
	// themselves; 0 means 256 MiB; below 1 MiB is an error. Above it, the
	// largest connection of the party that uses most is closed.
	MaxInline int64

	// MaxConns bounds the connections; 0 means DefaultMaxConns. The last eighth of them is reserved
	// for parties with at most 8. A further connection replaces an idle one, with no call in
	// flight: the one idle for longest, from the party that has most connections, if that party
	// then still has at least as many as the newcomer's party; otherwise from the newcomer's own
	// party. If those have only connections with calls in flight, and the newcomer's party has at
	// most 8, the newcomer replaces the largest party's connection that has made no progress for
	// longest, provided that Handler Resumes (package oncrpc). Otherwise the newcomer is rejected.
	MaxConns int

	// ReverseCredits is the number of calls that the programs may have in
	// flight to one requester (ReverseClient), if the requester grants as many;
	// 0 means 16; below 0 or above 4096 is an error.
	ReverseCredits int

	// Extensions are the offers to requesters from this project; nil offers
	// nothing.
	Extensions *ExtensionConfig

	// Kind, if not nil, distinguishes calls to one procedure that take
	// different times: for msg, an RPC call message from its XID on, Kind
	// returns a number that is the same for calls of a kind, and 0 if the
	// procedure alone determines the kind. The message is unchecked, may be
	// truncated anywhere, and lacks the data that came in chunks. Kind must be
	// fast: a connection's reader calls it before each call that it may serve.
	Kind func(msg []byte) uint32

	// Waits must be true if Handler waits for other goroutines, as package
	// stream's does. Then no connection's reader serves calls, and only
	// MaxInline bounds the number of calls served concurrently.
	Waits bool

	// Trace, if not nil, returns a Trace for a call that arrives.
	Trace func() oncrpc.Trace

	// Log receives messages for the administrator; nil discards them.
	Log *slog.Logger

	initOnce sync.Once
	cfg      config
	err      error // from the set-up

	reverse ClientConnConfig // for reverse calls

	startTime    time.Time
	memory       *fairshare.Memory
	counters     *fairshare.Memory // memory for all connections' delegation counters
	inlineBytes  atomic.Int64      // bytes counted against MaxInline
	fairShare    atomic.Int64      // each connection's share of MaxInline
	calls        dispatcher
	watchdog     relief.Watchdog
	failedCalls  failedCalls
	errors       errorCounts
	log          *slog.Logger
	stallCheckMu sync.Mutex // held by abortStalled

	mu           sync.Mutex
	draining     bool
	listeners    map[rdma.Listener]struct{}
	conns        map[*conn]struct{} // including connections being set up
	evictedCount int                // number of conns chosen to be closed
	parties      fairshare.Parties[partyShares]
	totals       oncrpc.Totals  // except Now
	connGroup    sync.WaitGroup // one per conn; grows only while not draining
}

// Serve accepts connections from l until Shutdown, and then returns nil, or
// until l fails, and then returns its error. It closes l. Several Serves may
// run concurrently, each with its own listener.
func (s *Server) Serve(l rdma.Listener) error {
	defer l.Close()
	if err := s.init(); err != nil {
		return err
	}
	if !s.addListener(l) {
		return nil
	}
	for {
		req, err := l.Accept(context.Background()) // until Close
		switch {
		case err == nil:
			s.setUpConn(req)
		case s.removeListener(l):
			return nil
		default:
			return fmt.Errorf("rpcrdma: %w", err)
		}
	}
}

// addListener registers l, so that Shutdown closes it.
func (s *Server) addListener(l rdma.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

// removeListener removes l, and reports whether l failed because of Shutdown.
func (s *Server) removeListener(l rdma.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	return s.draining
}

// setUpConn admits or rejects a connection, and accepts it in a new goroutine so that the
// listener is not blocked.
func (s *Server) setUpConn(req rdma.ConnRequest) {
	if c, why := s.admitConn(req); c == nil {
		err, peer := req.Reject(nil), peerOf(req)
		s.log.Warn("RDMA connection rejected", "peer", &peer, "reason", why, "err", err)
	} else {
		go c.acceptPeer(req)
	}
}

// admitConn creates and registers a conn, or returns nil and the reason for a rejection.
func (s *Server) admitConn(req rdma.ConnRequest) (c *conn, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return nil, "shutting down"
	}
	p := s.parties.Enter(req.RemoteAddr())
	if s.parties.Full(p, len(s.conns)-s.evictedCount, s.cfg.maxConns) && !s.evictConnFor(p) {
		s.parties.Leave(p)
		s.totals.Refused++
		return nil, "too many connections"
	}
	c = newConn(s, p, req)
	s.conns[c] = struct{}{}
	s.totals.Total++
	s.updateFairShare()
	s.connGroup.Add(1)
	return c, ""
}

// forgetConn removes a connection. It is called once for each, after its goroutines have
// returned.
func (s *Server) forgetConn(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	if c.evicted {
		s.evictedCount--
	}
	s.updateFairShare()
	s.parties.Leave(c.party)
	s.mu.Unlock()
	s.connGroup.Done()
}

// Shutdown stops the server: it accepts no more connections and no more calls,
// waits until calls in flight are answered, and closes the connections. If ctx
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
		s.connGroup.Wait()
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
