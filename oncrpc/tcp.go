package oncrpc

import (
	"context"
	"log/slog"
	"net"
)

// A Server serves RPC calls over TCP, with the record marking of RFC 5531,
// Section 11.
type Server struct {
	// Handler answers the calls. It must not be nil.
	Handler Service

	// MaxRecord is the length in octets of the longest call and of the
	// longest reply; 0 means 1 MiB of payload and 4 KiB beside it.
	MaxRecord int

	// Log is told of connections that break the rules; nil means
	// slog.Default.
	Log *slog.Logger
}

// Serve takes connections from l, which it closes in the end, and returns nil
// after Shutdown, or the error that ended it.
func (s *Server) Serve(l net.Listener) error { panic("to come") }

// Shutdown ends the service in good order: no more calls are taken, those
// under way are answered, and the connections are closed. When ctx ends
// first, handlers find their context cancelled and the connections are cut,
// and Shutdown returns the context's cause. In either case it waits until no
// handler runs.
func (s *Server) Shutdown(ctx context.Context) error { panic("to come") }
