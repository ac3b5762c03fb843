package nfsrdma

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
)

// dialTCPLine makes one TCP connection.
func (c *Client) dialTCPLine(ctx context.Context) (*oncrpc.Line, error) {
	return oncrpc.DialTCPLine(ctx, c.addr, c.tcpLineConfig(c.newLink(), nfs3.Version))
}

// tcpSessionDialer returns a function that makes one TCP connection for a version 4 session.
func (c *Client) tcpSessionDialer() func(ctx context.Context) (nfs4client.Conn, error) {
	cfg := c.tcpLineConfig(c.newLink(), nfs4.Version)
	cfg.Line.Once = true // the session repeats calls itself, and must know which may have been executed
	return func(ctx context.Context) (nfs4client.Conn, error) {
		line, err := oncrpc.DialTCPLine(ctx, c.addr, cfg)
		if err != nil {
			return nil, err // not a nil *oncrpc.Line
		}
		return line4{line}, nil
	}
}

// tcpSecurer returns a function that starts TLS on a TCP connection for NFS version vers,
// or nil if TLS is not configured.
func (e *endpoint) tcpSecurer(vers uint32) func(ctx context.Context, nc net.Conn) (net.Conn, error) {
	if e.tls == nil {
		return nil
	}
	return func(ctx context.Context, nc net.Conn) (net.Conn, error) {
		conn, err := e.tls.Secure(ctx, nc, nfs3.Program, vers)
		if err != nil {
			return nil, err // not a nil *rpctls.Conn
		}
		return conn, nil
	}
}

// dialMOUNT connects to MOUNT with TLS. The port may come from an unencrypted rpcbind
// call: the certificate proves that the right server uses it.
func (e *endpoint) dialMOUNT(ctx context.Context, addr string) (oncrpc.Caller, io.Closer, error) {
	nc, err := oncrpc.DialReserved(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	secure, err := e.tls.Secure(ctx, nc, mount3.Program, mount3.Version)
	if failed, ok := errors.AsType[*rpctls.Error](err); ok && failed.Reason == rpctls.NoTLS {
		err = fmt.Errorf("%w; Linux's mountd does not support it: clear-mount, with sec=, permits unencrypted calls", err)
	}
	if err != nil {
		return nil, nil, err
	}
	caller := oncrpc.NewTCPClient(secure, oncrpc.ClientConfig{})
	return caller, caller, nil
}
