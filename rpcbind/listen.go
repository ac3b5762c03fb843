package rpcbind

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Listener is where clients ask: at one port, over TCP and UDP. Many ask over
// UDP alone, whatever they want to know.
type Listener struct {
	tcp net.Listener
	udp net.PacketConn
}

// Listen listens at an address, host and port.
func Listen(addr string) (*Listener, error) {
	tcp, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return &Listener{tcp, udp}, nil
}

// Addr returns the address over TCP; that over UDP has the same port.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// Close ends it.
func (l *Listener) Close() error { return errors.Join(l.tcp.Close(), l.udp.Close()) }

// A Server answers who asks at a Listener.
type Server struct {
	tcp oncrpc.Server
}

// NewServer returns a server of p. log is told of connections that break the
// rules; nil means slog.Default.
func NewServer(p *Portmapper, log *slog.Logger) *Server {
	mux := &oncrpc.Mux{Log: log}
	p.Register(mux)
	return &Server{oncrpc.Server{Handler: mux, Log: log}}
}

// Serve answers until Shutdown, and returns nil then. It closes l.
func (s *Server) Serve(l *Listener) error {
	udp := make(chan error, 1)
	go func() {
		udp <- s.packets(l.udp)
		l.tcp.Close()
	}()
	err := s.tcp.Serve(l.tcp)
	l.udp.Close()
	if lost := <-udp; lost != nil {
		return lost // what ended both
	}
	return err
}

// Shutdown ends the service as oncrpc.Server's does.
func (s *Server) Shutdown(ctx context.Context) error { return s.tcp.Shutdown(ctx) }

// packets answers calls over UDP, a datagram each (RFC 5531, Section 10), one
// after the other: no answer takes any time.
func (s *Server) packets(c net.PacketConn) error {
	call, head := make([]byte, maxPacket), make([]byte, 0, maxPacket)
	for {
		n, from, err := c.ReadFrom(call)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		peer := oncrpc.Peer{Network: "udp"}
		if a, ok := from.(*net.UDPAddr); ok {
			ap := a.AddrPort()
			peer.Addr = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
		}
		req := oncrpc.Request{Msg: call[:n], Peer: &peer, MaxReply: maxPacket}
		rep := oncrpc.Reply{Head: head}
		if s.tcp.Handler.Serve(context.Background(), &req, &rep) {
			_, _ = c.WriteTo(rep.Head, from) // who gets no answer asks again
		}
	}
}
