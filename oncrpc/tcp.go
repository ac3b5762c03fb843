package oncrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/internal/relief"
	"github.com/nfsrdma/nfsrdma/internal/samehost"
	"github.com/nfsrdma/nfsrdma/internal/workpool"
)

// A Server serves RPC calls over TCP with record marking (RFC 5531, Section 11). Its
// fields must be set before the first Serve.
type Server struct {
	// Handler serves the calls. It must not be nil.
	Handler Service

	// MaxRecord is the maximum length in bytes of a call, and of a reply that Handler may
	// return. 0 means 1 MiB payload plus 4 KiB, and 64 MiB is the maximum. The server
	// closes a connection that sends a longer call.
	MaxRecord int

	// MaxConns bounds the connections; 0 means DefaultMaxConns. A party is an IPv4
	// address or the first 64 bits of an IPv6 address. The last eighth of the connections
	// is reserved for parties with no more than 8.
	//
	// A further connection replaces the longest idle connection (without a call in
	// flight) of the party with most connections, if that party then keeps no fewer than
	// the newcomer's. Otherwise it replaces its own party's longest idle connection. If
	// no such connection is idle, Handler Resumes, and the newcomer's party has no more
	// than 8, it replaces the largest party's connection that has made no progress for
	// the longest time. Otherwise the further connection is closed.
	MaxConns int

	// Kind, if not nil, distinguishes calls of one procedure that take different times,
	// as rpcrdma.Server.Kind does: for msg, an unchecked RPC call message from its XID
	// on, Kind returns any number that is equal for calls of the same kind.
	Kind func(msg []byte) uint32

	// Guard, if not nil, makes connections secure.
	Guard Guard

	// Trace, if not nil, returns a Trace for each arriving call.
	Trace func() Trace

	// Log receives protocol violations by peers, once per connection; nil means
	// slog.Default.
	Log *slog.Logger

	initOnce      sync.Once
	logger        logger
	startTime     time.Time
	requestMemory *fairshare.Memory // memory for large records, in bytes
	replyMemory   *fairshare.Memory // memory for large data items and heads, in bytes
	callMemory    *fairshare.Memory // memory for calls in flight, in bytes as limits.go counts them
	tasks         workpool.Pool
	watchdog      relief.Watchdog
	callPool      sync.Pool // contains *tcpCall
	stallCheck    sync.Mutex

	mu           sync.Mutex
	closed       bool // by Shutdown
	stopping     chan struct{}
	listeners    map[net.Listener]struct{}
	conns        map[*tcpConn]struct{}
	leavingConns int    // connections in conns that were replaced
	totals       Totals // except Now
	parties      fairshare.Parties[tcpParts]
}

// init initializes the fields that have no useful zero value.
func (s *Server) init() {
	s.initOnce.Do(func() {
		press := fairshare.NewPress(s.abortStalled)
		s.requestMemory = fairshare.NewMemory(memoryLimit, partyMemoryLimit, press)
		s.replyMemory = fairshare.NewMemory(memoryLimit, partyMemoryLimit, press)
		s.callMemory = fairshare.NewMemory(callMemoryLimit, callMemoryLimit/2, nil) // only tried, never waited for
		s.parties = fairshare.NewParties(s.newParts)
		s.watchdog.Init()
		s.startTime = time.Now()
		s.stopping = make(chan struct{})
		s.listeners = make(map[net.Listener]struct{})
		s.conns = make(map[*tcpConn]struct{})
	})
}

// Serve accepts connections from l, and closes l when it returns. It returns nil after
// Shutdown, otherwise the last Accept's error. In either case the connections continue to
// be served until Shutdown. Serve may be called several times, with a listener each.
func (s *Server) Serve(l net.Listener) error {
	s.init()
	defer l.Close()
	if s.MaxRecord < 0 || s.MaxRecord > partyMemoryLimit {
		return fmt.Errorf("oncrpc: MaxRecord is %d bytes, not 0 to %d", s.MaxRecord, partyMemoryLimit)
	}
	if !s.addListener(l) {
		return nil
	}
	defer s.removeListener(l)
	usual := samehost.SetListenerReno(l)
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			samehost.RestoreAlgorithm(nc, usual)
			s.addConn(nc)
		case s.isShutDown():
			return nil
		case !isTemporary(err):
			return err
		default:
			s.log().Warn("cannot accept RPC connections; retrying", "addr", l.Addr().String(), "err", err)
			s.waitUnlessStopped(acceptDelay)
		}
	}
}

// Shutdown stops the server gracefully: it accepts no more calls, replies to those in
// flight, and closes the connections. If ctx ends first, Shutdown cancels the handlers'
// context, aborts the connections, and returns the context's cause without waiting for
// running handlers. A further Shutdown waits for them.
func (s *Server) Shutdown(ctx context.Context) error {
	s.init()
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stopping)
	}
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
		s.tasks.Close()
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		s.abortConns(context.Cause(ctx))
		return context.Cause(ctx)
	}
}

// abortConns aborts every connection.
func (s *Server) abortConns(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.abort(cause)
	}
}

// addConn starts to serve nc.
func (s *Server) addConn(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		nc.Close()
		return
	}
	party := s.parties.Enter(nc.RemoteAddr())
	if s.parties.Full(party, len(s.conns)-s.leavingConns, s.maxConns()) && !s.abortConnFor(party) {
		s.parties.Leave(party)
		s.totals.Refused++
		peer := peerOf(nc)
		s.log().Warn("RPC connection rejected: too many connections", "peer", &peer, "limit", s.maxConns())
		nc.Close()
		return
	}
	c := newTCPConn(s, nc, party)
	s.conns[c] = struct{}{}
	s.totals.Total++
	s.tasks.Go(c)
}

func (s *Server) removeConn(c *tcpConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if c.leaving {
		s.leavingConns--
	}
	s.parties.Leave(c.party)
}

// addListener adds l. It returns false after Shutdown.
func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.listeners[l] = struct{}{}
	}
	return !s.closed
}

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (s *Server) isShutDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// waitUnlessStopped waits for d or for Shutdown.
func (s *Server) waitUnlessStopped(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.stopping:
	}
}

// isTemporary reports whether err is temporary, so that a later Accept may succeed.
func isTemporary(err error) bool {
	for _, e := range []error{
		syscall.ECONNABORTED, syscall.EINTR, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOBUFS, syscall.ENOMEM,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (s *Server) maxRecord() int {
	if s.MaxRecord == 0 {
		return defaultMaxRecord
	}
	return s.MaxRecord
}

func (s *Server) maxConns() int {
	if s.MaxConns == 0 {
		return DefaultMaxConns
	}
	return s.MaxConns
}

func (s *Server) log() *slog.Logger { return s.logger.limitedLogger(s.Log) }
