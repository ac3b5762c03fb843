package rpctls

import (
	"errors"
	"net"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// InClear counts and logs a connection without TLS (oncrpc.Guard).
func (s *Server) InClear(nc net.Conn) {
	s.mu.Lock()
	s.clear++
	s.mu.Unlock()
	s.audit.Info("no TLS", "peer", nc.RemoteAddr(), "security", (*oncrpc.Security)(nil))
}

// Refused counts and logs a client that asks for TLS as it must not (oncrpc.Guard).
func (s *Server) Refused(nc net.Conn, cause error) {
	reason := Broken
	if errors.Is(cause, oncrpc.ErrInjected) {
		reason = Injected
	}
	_ = s.failure(nc, &Error{reason, cause.Error(), cause})
}

// failure counts and logs a handshake that failed.
func (s *Server) failure(nc net.Conn, err error) error {
	s.mu.Lock()
	s.failed[reasonOf(err)]++
	s.mu.Unlock()
	s.log.Warn("no TLS with a client", "peer", nc.RemoteAddr(), "err", err)
	return err
}
