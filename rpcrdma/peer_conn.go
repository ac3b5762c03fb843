package rpcrdma

import (
	"net"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A PeerConn is a Server's connection, for a Handler that presents the
// connection to other code (package stream).
type PeerConn struct{ c *conn }

// PeerConn returns the connection whose peer was passed to Handler. It returns
// false if the connection has ended.
func (s *Server) PeerConn(peer *oncrpc.Peer) (PeerConn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if &c.peer == peer {
			return PeerConn{c}, true
		}
	}
	return PeerConn{}, false
}

// LocalAddr returns the provider's local address.
func (p PeerConn) LocalAddr() net.Addr { return p.c.rc.LocalAddr() }

// RemoteAddr returns the provider's address for the requester.
func (p PeerConn) RemoteAddr() net.Addr { return p.c.rc.RemoteAddr() }

// Drain stops accepting calls, and closes the connection after the last reply.
func (p PeerConn) Drain() { p.c.drain() }

// Release stops accepting connections, drains the connections for which keep
// returns false, and stops the server's goroutines when the last connection is
// gone. Unlike Shutdown, it does not wait.
func (s *Server) Release(keep func(peer *oncrpc.Peer) bool) {
	if s.init() != nil {
		return
	}
	s.mu.Lock()
	s.draining = true
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		if !keep(&c.peer) {
			c.drain()
		}
	}
	s.mu.Unlock()
	go func() {
		s.connGroup.Wait()
		s.calls.close()
	}()
}
