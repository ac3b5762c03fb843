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
	"github.com/nfsrdma/nfsrdma/nfs4client"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpctls"
)

// overTCP makes one connection over TCP.
func (c *Client) overTCP(ctx context.Context) (*oncrpc.Line, error) {
	return oncrpc.DialTCPLine(ctx, c.addr, oncrpc.TCPLineConfig{
		Secure: c.secure(nfs3.Version),
		Line:   oncrpc.LineConfig{Silence: c.cfg.Silence, GiveUp: c.cfg.GiveUp, Log: c.cfg.Log},
	})
}

// overTCP4 makes one connection over TCP for a session of version 4.
func (c *Client) overTCP4(ctx context.Context) (nfs4client.Conn, error) {
	line, err := oncrpc.DialTCPLine(ctx, c.addr, oncrpc.TCPLineConfig{
		Secure: c.secure(nfs4.Version),
		Line: oncrpc.LineConfig{
			Once:    true, // the session repeats calls, and must know which may have been executed
			Silence: c.cfg.Silence, GiveUp: c.cfg.GiveUp, Log: c.cfg.Log,
		},
	})
	if err != nil {
		return nil, err // not a nil *oncrpc.Line
	}
	return line4{line}, nil
}

// secure returns what makes a connection over TCP secure that a version of NFS will use,
// or nil without TLS.
func (c *Client) secure(vers uint32) func(ctx context.Context, nc net.Conn) (net.Conn, error) {
	if c.cfg.TLS == nil {
		return nil
	}
	return func(ctx context.Context, nc net.Conn) (net.Conn, error) {
		conn, err := c.cfg.TLS.Secure(ctx, nc, nfs3.Program, vers)
		if err != nil {
			return nil, err // not a nil *rpctls.Conn
		}
		return conn, nil
	}
}

// dialMOUNT connects to MOUNT inside of TLS. Its port may come from rpcbind, which is asked
// in clear: the certificate shows whether the server is there.
func (c *Client) dialMOUNT(ctx context.Context, addr string) (oncrpc.Caller, io.Closer, error) {
	nc, err := oncrpc.DialReserved(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	secure, err := c.cfg.TLS.Secure(ctx, nc, mount3.Program, mount3.Version)
	if failed, ok := errors.AsType[*rpctls.Error](err); ok && failed.Reason == rpctls.NoTLS {
		err = fmt.Errorf("%w; the mountd of Linux has none: clear-mount, with sec=, asks it in clear", err)
	}
	if err != nil {
		return nil, nil, err
	}
	caller := oncrpc.NewTCPClient(secure, oncrpc.ClientConfig{})
	return caller, caller, nil
}
