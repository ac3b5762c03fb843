package rpcbind

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Listener receives calls at one port, over TCP and UDP. Many clients use only UDP, for
// every procedure.
type Listener struct {
	tcp net.Listener
	udp *oncrpc.Packets
}

// Listen listens at an address, host and port. Port 0 means any free port.
func Listen(addr string) (l *Listener, err error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	for range maxPortTries {
		l, err = listenBoth(addr)
		if port != "0" || !errors.Is(err, unix.EADDRINUSE) {
			break // otherwise the port is free only for TCP
		}
	}
	return l, err
}

func listenBoth(addr string) (*Listener, error) {
	tcp, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	udp, err := oncrpc.ListenPackets(tcp.Addr().String())
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return &Listener{tcp, udp}, nil
}

// Addr returns the TCP address; UDP has the same port.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// Services returns the portmapper's own services at this Listener. Version 2 is listed
// only for IPv4, which is all that its protocol can express, as rpcbind lists it.
func (l *Listener) Services() []Service {
	at := addrPort(l.Addr())
	list := slices.Concat(
		Services("tcp", at, Program, PortmapVers, RPCBVers, RPCBVers4),
		Services("udp", at, Program, PortmapVers, RPCBVers, RPCBVers4))
	return slices.DeleteFunc(list, func(s Service) bool {
		return s.Vers == PortmapVers && transportOf(s.Netid).prot == 0
	})
}

// addrPort converts a TCP address, and returns zero for another address.
func addrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort()
	}
	return netip.AddrPort{}
}

// Close closes both sockets.
func (l *Listener) Close() error { return errors.Join(l.tcp.Close(), l.udp.Close()) }

// A Server serves the calls that arrive at a Listener.
type Server struct {
	tcp oncrpc.Server
}

// NewServer returns a server for p. The server logs connections that violate the protocol
// to log; nil means slog.Default.
func NewServer(p *Portmapper, log *slog.Logger) *Server {
	mux := &oncrpc.Mux{Log: log}
	p.Register(mux)
	return &Server{oncrpc.Server{Handler: mux, Log: log}}
}

// Serve serves calls until Shutdown, and then returns nil. It closes l.
func (s *Server) Serve(l *Listener) error {
	udp := make(chan error, 1)
	go func() {
		udp <- l.udp.Serve(s.tcp.Handler)
		l.tcp.Close()
	}()
	err := s.tcp.Serve(l.tcp)
	l.udp.Close()
	if lost := <-udp; lost != nil {
		return lost // the error that ended both
	}
	return err
}

// Shutdown stops the service as oncrpc.Server.Shutdown does.
func (s *Server) Shutdown(ctx context.Context) error { return s.tcp.Shutdown(ctx) }
