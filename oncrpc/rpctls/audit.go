package rpctls

import (
	"errors"
	"net"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// NoteUnencrypted counts and logs a connection without TLS (oncrpc.Guard).
func (s *Server) NoteUnencrypted(nc net.Conn) {
	s.mu.Lock()
	s.unencryptedCount++
	s.mu.Unlock()
	s.audit.Info("no TLS", "peer", nc.RemoteAddr(), "security", (*oncrpc.Security)(nil))
}

// Refused counts and logs a client's invalid TLS request (oncrpc.Guard).
func (s *Server) Refused(nc net.Conn, cause error) {
	reason := Broken
	if errors.Is(cause, oncrpc.ErrInjected) {
		reason = Injected
	}
	_ = s.recordFailure(nc, &Error{reason, cause.Error(), cause})
}

// recordFailure counts and logs a failed handshake.
func (s *Server) recordFailure(nc net.Conn, err error) error {
	s.mu.Lock()
	s.failed[reasonOf(err)]++
	s.mu.Unlock()
	s.log.Warn("TLS handshake with a client failed", "peer", nc.RemoteAddr(), "err", err)
	return err
}
