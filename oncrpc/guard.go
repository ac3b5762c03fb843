package oncrpc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
)

// A Guard makes connections of a Server secure if their clients ask for that, by a call
// without arguments (package rpctls). A Guard is safe for concurrent use.
type Guard interface {
	// Probe reports whether a call asks for a secure connection. It turns such a call
	// into a plain one, for the Server's Handler to answer. denial is the answer to a
	// call that asks in a wrong way.
	Probe(msg []byte) (asks bool, denial error)

	// Answer completes the reply to the plain call. It returns false if the connection
	// stays in clear.
	Answer(reply []byte) ([]byte, bool)

	// Secure makes nc secure. The client must have read the answer. Secure waits for
	// the client, for a bounded time and until ctx ends, and takes over nc.
	Secure(ctx context.Context, nc net.Conn) (SecureConn, error)

	// InClear is told once of each connection whose calls come in clear (RFC 9289,
	// Section 6.1).
	InClear(nc net.Conn)

	// Refused is told why a client has got nothing: it has asked in a way, or at a
	// moment, in which it must not.
	Refused(nc net.Conn, cause error)
}

// ErrInjected is the cause of a refusal if bytes in clear have come with the call that
// asks for a secure connection (RFC 9289, Section 5.1.1).
var ErrInjected = errors.New("oncrpc: bytes in clear are behind the call that asks for TLS")

// A SecureConn is a connection that a Guard, or a client, has made secure. A write that a
// deadline interrupts may be continued.
type SecureConn interface {
	net.Conn

	// WriteBuffers is Write for several slices, as WriteTo of net.Buffers is for
	// connections in clear.
	WriteBuffers(v *net.Buffers) (int64, error)

	Security() *Security
}

// A Security is the protection of a connection against others on its way. It is
// immutable.
type Security struct {
	Suite    string // the cipher suite's name of TLS 1.3
	Protocol string // inside of TLS (ALPN), "" if the peer does not say

	// Kernel reports that the kernel makes the records.
	Kernel bool

	// Mutual reports that both ends have shown certificates.
	Mutual bool

	// Issuer and Serial name the certificate of the peer, "" without one. They are a
	// host's, and never a user's (RFC 9289, Section 4.2).
	Issuer, Serial string

	// Owner is the same for all certificates of one owner: that of the peer, or zero
	// without a certificate.
	Owner [32]byte

	// Binding is what only the two ends of the connection know (tls-exporter of RFC
	// 9266).
	Binding []byte
}

// String returns the word of xprtsec= for the protection; s may be nil.
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

// securityOf returns the protection of a connection, or nil.
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
