package oncrpc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
)

// A Guard secures a Server's connections when clients request that by a call without
// arguments (package rpctls). A Guard is safe for concurrent use.
type Guard interface {
	// Probe reports whether a call requests a secure connection. It turns such a call
	// into a plain one, for the Server's Handler to serve. denial is the reply to an
	// invalid request.
	Probe(msg []byte) (asks bool, denial error)

	// Answer completes the reply to the plain call. It returns false if the connection
	// stays unencrypted.
	Answer(reply []byte) ([]byte, bool)

	// Secure makes nc secure. The client must have read the reply. Secure waits for
	// the client, for a bounded time and until ctx ends, and takes over nc.
	Secure(ctx context.Context, nc net.Conn) (SecureConn, error)

	// NoteUnencrypted is called once for each connection whose calls arrive unencrypted (RFC
	// 9289, Section 6.1).
	NoteUnencrypted(nc net.Conn)

	// Refused is called when a client's request is rejected because it is malformed or
	// comes at a time when it must not be sent.
	Refused(nc net.Conn, cause error)
}

// ErrInjected is the cause of a rejection if unencrypted bytes follow the call that
// requests a secure connection (RFC 9289, Section 5.1.1).
var ErrInjected = errors.New("oncrpc: unencrypted bytes follow the call that requests TLS")

// A SecureConn is a connection secured by a Guard or a client. A write that a deadline
// interrupts may be continued.
type SecureConn interface {
	net.Conn

	// WriteBuffers writes several slices, as net.Buffers.WriteTo does on unencrypted
	// connections.
	WriteBuffers(v *net.Buffers) (int64, error)

	Security() *Security
}

// A Security describes how a connection is protected on the network. It is immutable.
type Security struct {
	Suite    string // the TLS 1.3 cipher suite's name
	Protocol string // inside TLS (ALPN), "" if the peer does not send it

	// Kernel reports that the kernel encrypts the records.
	Kernel bool

	// Mutual reports that both ends have presented certificates.
	Mutual bool

	// Issuer and Serial name the peer's certificate, "" without one. They are a host's,
	// and never a user's (RFC 9289, Section 4.2).
	Issuer, Serial string

	// Owner identifies the owner of the peer's certificate, and is the same for all its
	// certificates; zero without a certificate.
	Owner [32]byte

	// Binding is the channel binding (tls-exporter, RFC 9266), which only the two ends
	// know.
	Binding []byte
}

// String returns the protection as a value of xprtsec=; s may be nil.
func (s *Security) String() string {
	switch {
	case s == nil:
		return "none"
	case s.Mutual:
		return "mtls"
	}
	return "tls"
}

// LogValue describes s for audit (slog.LogValuer).
func (s *Security) LogValue() slog.Value {
	if s == nil {
		return slog.StringValue(s.String())
	}
	list := []slog.Attr{
		slog.String("mode", s.String()), slog.String("suite", s.Suite), slog.String("alpn", cmp.Or(s.Protocol, "none")),
	}
	if s.Kernel {
		list = append(list, slog.Bool("kernel", true))
	}
	if s.Serial != "" {
		list = append(list, slog.String("issuer", s.Issuer), slog.String("serial", s.Serial))
	}
	return slog.GroupValue(list...)
}

// securityOf returns how a connection is protected, or nil.
func securityOf(nc net.Conn) *Security {
	if s, ok := nc.(SecureConn); ok {
		return s.Security()
	}
	return nil
}

// writeBuffers writes v to nc, as far as possible, and removes the written bytes from
// v.
func writeBuffers(nc net.Conn, v *net.Buffers) (int64, error) {
	if s, ok := nc.(SecureConn); ok {
		return s.WriteBuffers(v)
	}
	return v.WriteTo(nc)
}
