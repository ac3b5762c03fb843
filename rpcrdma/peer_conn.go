package rpcrdma

import (
	"net"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A PeerConn is a connection of a Server, as a Handler sees it that presents
// the connection to other code (package stream).
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

// LocalAddr returns the provider's address of this end.
func (p PeerConn) LocalAddr() net.Addr { return p.c.rc.LocalAddr() }

// RemoteAddr returns the provider's address of the requester.
func (p PeerConn) RemoteAddr() net.Addr { return p.c.rc.RemoteAddr() }

// Drain stops taking calls, and closes the connection after the last reply.
func (p PeerConn) Drain() { p.c.drain() }

// Release stops taking connections, drains the connections for which keep
// returns false, and ends the server's goroutines when the last connection is
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
		s.all.Wait()
		s.calls.close()
	}()
}
