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

// A Server serves RPC calls over TCP, with the record marking of RFC 5531,
// Section 11. Its fields must be set before the first Serve.
type Server struct {
	// Handler answers the calls. It must not be nil.
	Handler Service

	// MaxRecord is the length in bytes of the longest call, and of the longest
	// reply that Handler may make. 0 means 1 MiB of payload plus 4 KiB, and 64
	// MiB is the maximum. The server closes a connection that sends a longer
	// call.
	MaxRecord int

	// MaxConns bounds the connections; 0 means DefaultMaxConns. A party is an IPv4 address
	// or 64 bits of an IPv6 address. The last eighth of the connections is for
	// parties with no more than 8.
	//
	// A further connection replaces the connection that has been idle (without
	// a call under way) for longest of the party with most connections, if that
	// party then keeps no fewer than the newcomer's. Otherwise it replaces the
	// longest idle connection of its own party. If no such connection is idle,
	// Handler Resumes, and the newcomer's party has no more than 8, it replaces
	// the connection of the largest party that has not moved for longest.
	// Otherwise the further connection is closed.
	MaxConns int

	// Kind, if not nil, tells the calls of one procedure apart that take
	// different times, as rpcrdma.Server.Kind does: of msg, an unchecked RPC call
	// message from its XID on, Kind returns any number that is the same for calls
	// of a kind.
	Kind func(msg []byte) uint32

	// Guard makes connections secure, if it is not nil.
	Guard Guard

	// Trace, if not nil, returns a Trace for a call that arrives.
	Trace func() Trace

	// Log receives violations by peers, once per connection; nil means
	// slog.Default.
	Log *slog.Logger

	start    sync.Once
	logger   logger
	began    time.Time
	requests *fairshare.Memory // bytes of large records
	replies  *fairshare.Memory // bytes of large data items and heads
	waiting  *fairshare.Memory // bytes of calls under way, as limits.go counts them
	tasks    workpool.Pool
	watchdog relief.Watchdog
	calls    sync.Pool // of *tcpCall
	looking  sync.Mutex

	mu        sync.Mutex
	closed    bool // by Shutdown
	stop      chan struct{}
	listeners map[net.Listener]struct{}
	conns     map[*tcpConn]struct{}
	leaving   int    // how many of conns have lost their places
	totals    Totals // except Now
	parties   fairshare.Parties[tcpParts]
}

// init makes the parts that have no useful zero value.
func (s *Server) init() {
	s.start.Do(func() {
		press := fairshare.NewPress(s.cutStalled)
		s.requests = fairshare.NewMemory(memory, partOfMemory, press)
		s.replies = fairshare.NewMemory(memory, partOfMemory, press)
		s.waiting = fairshare.NewMemory(memoryOfCalls, memoryOfCalls/2, nil) // only tried, never waited for
		s.parties = fairshare.NewParties(s.parts)
		s.watchdog.Init()
		s.began = time.Now()
		s.stop = make(chan struct{})
		s.listeners = make(map[net.Listener]struct{})
		s.conns = make(map[*tcpConn]struct{})
	})
}

// Serve takes connections from l, and closes l when it returns. It returns nil
// after Shutdown, otherwise the error of the last Accept. In either case the
// connections continue to be served until Shutdown. Serve may be called several
// times, with a listener each.
func (s *Server) Serve(l net.Listener) error {
	s.init()
	defer l.Close()
	if s.MaxRecord < 0 || s.MaxRecord > partOfMemory {
		return fmt.Errorf("oncrpc: MaxRecord is %d bytes, not 0 to %d", s.MaxRecord, partOfMemory)
	}
	if !s.addListener(l) {
		return nil
	}
	defer s.removeListener(l)
	usual := samehost.SpeedListener(l)
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			samehost.Restore(nc, usual)
			s.addConn(nc)
		case s.stopped():
			return nil
		case !passes(err):
			return err
		default:
			s.log().Warn("cannot accept RPC connections at present", "addr", l.Addr().String(), "err", err)
			s.pause(acceptDelay)
		}
	}
}

// Shutdown ends the service gracefully: the server takes no more calls, answers
// those under way, and closes the connections. If ctx ends first, Shutdown
// cancels the handlers' context, cuts the connections, and returns the
// context's cause without waiting for running handlers. A further Shutdown
// waits for them.
func (s *Server) Shutdown(ctx context.Context) error {
	s.init()
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stop)
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
		s.abort(context.Cause(ctx))
		return context.Cause(ctx)
	}
}

// abort cuts every connection.
func (s *Server) abort(cause error) {
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
	if s.parties.Full(party, len(s.conns)-s.leaving, s.maxConns()) && !s.makeRoom(party) {
		s.parties.Leave(party)
		s.totals.Refused++
		peer := peerOf(nc)
		s.log().Warn("RPC connection refused", "peer", &peer, "limit", s.maxConns())
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
		s.leaving--
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

func (s *Server) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// pause waits for d or for Shutdown.
func (s *Server) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.stop:
	}
}

// passes reports whether err is temporary, so that a later Accept may succeed.
func passes(err error) bool {
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

func (s *Server) log() *slog.Logger { return s.logger.of(s.Log) }
