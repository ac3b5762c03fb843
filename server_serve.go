package nfsrdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// ServeRDMA serves RPC-over-RDMA version 1 (RFC 8166) over iWARP on the connections of l,
// a TCP listener. It returns nil after Shutdown or Close, or else the error of l, and
// closes l. The usual port is 20049.
func (s *Server) ServeRDMA(l net.Listener) error {
	return s.parts.RDMA.Serve(s.parts.Device.NewListener(l))
}

// ServeTCP serves the same programs over TCP (RFC 5531, Section 11) on the connections of
// l. It returns nil after Shutdown or Close, or else the error of l, and closes l. The
// usual port is 2049.
func (s *Server) ServeTCP(l net.Listener) error { return s.parts.TCP.Serve(l) }

// ServeUDP serves only version 3's lock programs (package nlmserver) over UDP, without
// RPCSEC_GSS. Old clients lock files over UDP, and Linux announces its restarts over it.
// ServeUDP returns nil after p.Shutdown, or else the error of p.
func (s *Server) ServeUDP(p *oncrpc.Packets) error {
	p.Trace = s.parts.TCP.Trace
	return p.Serve(s.udpCalls)
}

// ListenAndServe listens on the TCP addresses rdma, for ServeRDMA, and tcp, for ServeTCP,
// and serves both until Shutdown or Close; then it returns nil. If an address is "", its
// transport is not served. If one transport fails, ListenAndServe shuts the Server down,
// as Shutdown with a cancelled context does, and returns the error.
func (s *Server) ListenAndServe(rdma, tcp string) error {
	var listeners []net.Listener
	var serve []func() error
	for _, transport := range []struct {
		addr  string
		serve func(net.Listener) error
	}{{rdma, s.ServeRDMA}, {tcp, s.ServeTCP}} {
		if transport.addr == "" {
			continue
		}
		l, err := net.Listen("tcp", transport.addr)
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
			return fmt.Errorf("nfsrdma: %w", err)
		}
		listeners, serve = append(listeners, l), append(serve, func() error { return transport.serve(l) })
	}
	return s.serveTogether(serve...)
}

// serveTogether calls all functions concurrently until all have returned. If one fails, it
// shuts the Server down, without waiting for calls that a file system executes.
func (s *Server) serveTogether(serve ...func() error) error {
	ended := make(chan error, len(serve))
	for _, one := range serve {
		go func() { ended <- one() }()
	}
	var err error
	for range serve {
		if failed := <-ended; failed != nil && err == nil {
			err = failed
			_ = s.Shutdown(endedContext()) // ends the other transport
		}
	}
	return err
}

// endedContext returns a cancelled context.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Shutdown shuts the Server down gracefully: it recalls delegations and waits about a
// second for their return, accepts no more calls, finishes the pending ones, and closes the
// connections. If ctx ends first, Shutdown aborts the connections and returns the cause,
// without waiting for calls that a file system still executes; Close waits for them. The
// Server cannot be used again.
func (s *Server) Shutdown(ctx context.Context) error {
	if ctx.Err() == nil {
		s.Drain()
	}
	err := s.shutdownTransports(ctx)
	s.closeLayers()
	return err
}

// Close aborts all connections, waits for the calls that file systems still execute, and
// releases the Server's resources. Afterwards no goroutine of the Server runs, and the file
// systems can be closed. Close returns nil. It may be called after Shutdown, and more than
// once.
func (s *Server) Close() error {
	_ = s.shutdownTransports(endedContext())
	_ = s.shutdownTransports(context.Background()) // calls of file systems
	s.closeLayers()
	return nil
}

// Drain is the first part of Shutdown: it recalls delegations, waits about a second for
// their return, and grants no more.
func (s *Server) Drain() {
	var nfs4 sync.WaitGroup
	nfs4.Go(s.nfs4.Drain)
	s.parts.Delegations.Drain()
	nfs4.Wait()
}

// shutdownTransports shuts both transports down concurrently.
func (s *Server) shutdownTransports(ctx context.Context) error {
	tcp := make(chan error, 1)
	go func() { tcp <- s.parts.TCP.Shutdown(ctx) }()
	return errors.Join(s.parts.RDMA.Shutdown(ctx), <-tcp)
}

// closeLayers closes the layers behind the transports, which must have been shut down.
func (s *Server) closeLayers() {
	s.closeOnce.Do(func() {
		s.stop()
		s.sweeps.Wait()
		s.locks.Close()
		s.nfs4.Close()
		s.clients.Close()
		s.parts.Replies.Close()
		s.parts.Delegations.Close()
	})
}
