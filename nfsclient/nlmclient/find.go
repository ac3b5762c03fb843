package nlmclient

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
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
)

// A Server says how to reach a server's lock manager. These connections are
// tried in order:
//
//	NFS                 the connection of the NFS calls itself
//	host:111 ─▶ host:N  over TCP, port from the server's rpcbind
type Server struct {
	// NFS is the connection that carries the NFS calls, which replaces itself
	// when it is lost. Conn returns a value that changes with each replacement.
	// NFS may be nil.
	NFS  oncrpc.Caller
	Conn func() any

	// Hosts are the names or addresses of the hosts of which one serves; usually it is
	// one. Current returns the one that serves now; nil means the first.
	Hosts   []string
	Current func() string

	// Dial connects to host and port over TCP; nil means a connection from a
	// reserved port if this process may use one: servers with secure exports
	// require it.
	Dial func(ctx context.Context, addr string) (oncrpc.Caller, io.Closer, error)
}

// host returns the host that serves now.
func (s *Server) host() string {
	if s.Current != nil {
		return s.Current()
	}
	return s.Hosts[0]
}

// tryNFSConn returns nil if the lock manager replies on the connection that
// carries the NFS calls.
func (s *Server) tryNFSConn(ctx context.Context) error {
	if s.NFS == nil {
		return errors.New("no NFS connection")
	}
	return callNull(ctx, s.NFS)
}

// connectTCP connects to the lock manager over TCP.
func (s *Server) connectTCP(ctx context.Context) (oncrpc.Caller, io.Closer, error) {
	port, err := s.queryRPCBind(ctx)
	if err != nil {
		return nil, nil, err
	}
	addr := net.JoinHostPort(s.host(), strconv.Itoa(int(port)))
	caller, conn, err := s.dialAddr(ctx, addr)
	if err == nil {
		if err = callNull(ctx, caller); err != nil {
			_ = conn.Close()
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("TCP %s: %w", addr, err)
	}
	return caller, conn, nil
}

func (s *Server) queryRPCBind(ctx context.Context) (port uint16, err error) {
	addr := net.JoinHostPort(s.host(), strconv.Itoa(rpcbind.Port))
	caller, conn, err := s.dialAddr(ctx, addr)
	if err == nil {
		defer conn.Close()
		port, err = rpcbind.GetPort(ctx, caller, nlm4.Program, nlm4.Version, rpcbind.TCP)
	}
	if err != nil {
		return 0, fmt.Errorf("rpcbind at %s: %w", addr, err)
	}
	return port, nil
}

func (s *Server) dialAddr(ctx context.Context, addr string) (oncrpc.Caller, io.Closer, error) {
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

// callNull calls the lock manager's NULL procedure.
func callNull(ctx context.Context, c oncrpc.Caller) error {
	x := oncrpc.Exchange{Prog: nlm4.Program, Vers: nlm4.Version, Proc: nlm4.ProcNull}
	if err := c.Call(ctx, &x); err != nil {
		return err
	}
	x.Release()
	return nil
}

// lookUpAddrs returns the addresses from which the server may call.
func lookUpAddrs(ctx context.Context, hosts []string) (all []netip.Addr) {
	for _, host := range hosts {
		list, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		for _, a := range list {
			all = append(all, a.Unmap())
		}
	}
	return all
}
