package lockclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"

	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcbind"
)

// A Server says how a server's lock manager is reached. These connections are
// tried in order:
//
//	NFS                 the connection of the NFS calls itself
//	Host:111 ─▶ Host:N  over TCP, by the server's rpcbind
type Server struct {
	// NFS is the connection of the NFS calls, which replaces itself when it is
	// lost. Conn returns a value that is another after each replacement. NFS may
	// be nil.
	NFS  oncrpc.Caller
	Conn func() any

	// Host is the server's name or address.
	Host string

	// Dial connects to host and port over TCP; nil means a connection from a
	// reserved port if this process may use one: servers with secure exports
	// insist.
	Dial func(ctx context.Context, addr string) (oncrpc.Caller, io.Closer, error)
}

// overNFS reports whether the lock manager answers on the connection of the NFS
// calls.
func (s *Server) overNFS(ctx context.Context) error {
	if s.NFS == nil {
		return errors.New("no connection for NFS calls")
	}
	return null(ctx, s.NFS)
}

// overTCP connects to the lock manager over TCP.
func (s *Server) overTCP(ctx context.Context) (oncrpc.Caller, io.Closer, error) {
	port, err := s.askRPCBind(ctx)
	if err != nil {
		return nil, nil, err
	}
	addr := net.JoinHostPort(s.Host, strconv.Itoa(int(port)))
	caller, conn, err := s.dial(ctx, addr)
	if err == nil {
		if err = null(ctx, caller); err != nil {
			_ = conn.Close()
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("TCP %s: %w", addr, err)
	}
	return caller, conn, nil
}

func (s *Server) askRPCBind(ctx context.Context) (port uint16, err error) {
	addr := net.JoinHostPort(s.Host, strconv.Itoa(rpcbind.Port))
	caller, conn, err := s.dial(ctx, addr)
	if err == nil {
		defer conn.Close()
		port, err = rpcbind.GetPort(ctx, caller, nlm4.Program, nlm4.Version, rpcbind.TCP)
	}
	if err != nil {
		return 0, fmt.Errorf("rpcbind at %s: %w", addr, err)
	}
	return port, nil
}

func (s *Server) dial(ctx context.Context, addr string) (oncrpc.Caller, io.Closer, error) {
	if s.Dial != nil {
		return s.Dial(ctx, addr)
	}
	nc, err := oncrpc.DialReserved(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	c := oncrpc.NewTCPClient(nc, oncrpc.ClientConfig{})
	return c, c, nil
}

// null calls the lock manager's procedure without effect.
func null(ctx context.Context, c oncrpc.Caller) error {
	x := oncrpc.Exchange{Prog: nlm4.Program, Vers: nlm4.Version, Proc: nlm4.ProcNull}
	if err := c.Call(ctx, &x); err != nil {
		return err
	}
	x.Release()
	return nil
}

// addresses returns the addresses from which a server of that name may call.
func addresses(ctx context.Context, host string) []netip.Addr {
	list, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i, a := range list {
		list[i] = a.Unmap()
	}
	return list
}
