package nfsrdma

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// ServeRDMA serves RPC-over-RDMA version 1 (RFC 8166) over iWARP to the
// connections of l, a TCP listener. It returns nil after Shutdown or Close, or
// the error of l, and closes l. The customary port is 20049.
func (s *Server) ServeRDMA(l net.Listener) error {
	return s.parts.RDMA.Serve(s.parts.Device.NewListener(l))
}

// ServeTCP serves the same programs over plain TCP (RFC 5531, Section 11) to
// the connections of l. It returns nil after Shutdown or Close, or the error of
// l, and closes l. The customary port is 2049.
func (s *Server) ServeTCP(l net.Listener) error { return s.parts.TCP.Serve(l) }

// ServeUDP serves the programs of locks for version 3 (package lockserver) over UDP to the callers of p: old
// clients lock files that way, and Linux tells so that it has restarted. No other program is served, and no call of
// RPCSEC_GSS. ServeUDP returns nil after p.Shutdown, or the error of p.
func (s *Server) ServeUDP(p *oncrpc.Packets) error { return p.Serve(s.packets) }

// ListenAndServe listens on the TCP addresses rdma, for ServeRDMA, and tcp, for
// ServeTCP, and serves both until Shutdown or Close; then it returns nil. If an
// address is "", ListenAndServe does not serve that transport. If one transport
// fails, ListenAndServe ends the Server as Shutdown with an ended context does,
// and returns the error.
func (s *Server) ListenAndServe(rdma, tcp string) error {
	var listeners []net.Listener
	var serve []func() error
	for _, way := range []struct {
		addr  string
		serve func(net.Listener) error
	}{{rdma, s.ServeRDMA}, {tcp, s.ServeTCP}} {
		if way.addr == "" {
			continue
		}
		l, err := net.Listen("tcp", way.addr)
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
			return fmt.Errorf("nfsrdma: %w", err)
		}
		listeners, serve = append(listeners, l), append(serve, func() error { return way.serve(l) })
	}
	return s.together(serve...)
}

// together serves in several ways until all have ended. If one fails, together
// ends the others, and does not wait for calls that a file system executes.
func (s *Server) together(serve ...func() error) error {
	ended := make(chan error, len(serve))
	for _, one := range serve {
		go func() { ended <- one() }()
	}
	var err error
	for range serve {
		if failed := <-ended; failed != nil && err == nil {
			err = failed
			_ = s.Shutdown(aborted()) // ends the other transport
		}
	}
	return err
}

// aborted returns a context that has ended.
func aborted() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Shutdown ends the Server gracefully: it asks clients to return their
// delegations and waits about a second for that, takes no more calls, finishes
// those under way, and closes the connections. If ctx ends first, Shutdown
// aborts the connections and returns the cause, without waiting for calls that
// a file system still executes; Close waits for them. The Server cannot be used
// again.
func (s *Server) Shutdown(ctx context.Context) error {
	if ctx.Err() == nil {
		s.parts.Delegations.Drain()
	}
	err := s.end(ctx)
	s.release()
	return err
}

// Close aborts all connections, waits for the calls that file systems still
// execute, and releases what the Server has: then no goroutine of the Server
// runs, and the file systems can be closed. It returns nil. Close may be called
// after Shutdown, and more than once.
func (s *Server) Close() error {
	_ = s.end(aborted())
	_ = s.end(context.Background()) // calls of file systems
	s.release()
	return nil
}

// end shuts both transports down at the same time.
func (s *Server) end(ctx context.Context) error {
	tcp := make(chan error, 1)
	go func() { tcp <- s.parts.TCP.Shutdown(ctx) }()
	return errors.Join(s.parts.RDMA.Shutdown(ctx), <-tcp)
}

// release ends the layers behind the transports, which take no more calls.
func (s *Server) release() {
	s.over.Do(func() {
		s.stop()
		s.sweeping.Wait()
		s.locks.Close()
		s.four.Close()
		s.clients.Close()
		s.parts.Replies.Close()
		s.parts.Delegations.Close()
	})
}
