package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/rpcbind"
)

// registerTime is how long the host's rpcbind may take to answer.
const registerTime = 5 * time.Second

// findable makes the transports known to clients as the flags ask: by our own
// portmapper, which becomes one more way, or by the host's rpcbind, until undo.
// After an error the transports are closed.
func (o *serveOptions) findable(ctx context.Context, transports []cli.Way, log *slog.Logger) (ways []cli.Way, undo func(), err error) {
	undo = func() {}
	switch {
	case o.portmap != "":
		ways, err = o.openPortmap(transports, log)
	case o.register:
		ways = transports
		undo, err = register(ctx, rpcbind.Host{}, services(transports), log)
	default:
		return transports, undo, nil
	}
	if err != nil {
		for _, w := range transports {
			err = errors.Join(err, w.Close())
		}
	}
	return ways, undo, err
}

// openPortmap adds the portmapper to the ways.
func (o *serveOptions) openPortmap(transports []cli.Way, log *slog.Logger) ([]cli.Way, error) {
	l, err := rpcbind.Listen(o.portmap)
	if err != nil {
		return nil, cli.ListenError("--portmap", o.portmap, err,
			", or, if rpcbind uses the port, omit --portmap and register there with --register")
	}
	p := rpcbind.NewPortmapper(append(l.Services(), services(transports)...))
	return append(transports, cli.NewWay("portmap", l, rpcbind.NewServer(p, log))), nil
}

// services returns the programs with their addresses. The names of the
// transports are the networks of rpcbind.
func services(transports []cli.Way) (list []rpcbind.Service) {
	for _, w := range transports {
		at := w.Addr.(*net.TCPAddr).AddrPort()
		list = append(list, rpcbind.Services(w.Name, at, nfs3.Program, nfs3.Version)...)
		list = append(list, rpcbind.Services(w.Name, at, nfsacl.Program, nfsacl.Version)...)
		list = append(list, rpcbind.Services(w.Name, at, mount3.Program, mount3.Version)...)
	}
	return list
}

// register registers the services with the rpcbind of host, until undo.
func register(ctx context.Context, host rpcbind.Host, list []rpcbind.Service, log *slog.Logger) (undo func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	if err := host.Register(ctx, list); err != nil {
		return nil, registerError(err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), registerTime)
		defer cancel()
		if err := host.Unregister(ctx, list); err != nil {
			log.Warn("rpcbind still has this server's registration; remove it with rpcinfo -d", "err", err)
		}
	}, nil
}

// registerError adds a remedy to an error of rpcbind.Host.Register.
func registerError(err error) error {
	var taken *rpcbind.TakenError
	switch {
	case errors.Is(err, rpcbind.ErrNoRPCBind):
		return fmt.Errorf("%w: start it (systemctl start rpcbind), or answer in its place with --portmap :111", err)
	case errors.As(err, &taken):
		return fmt.Errorf("%w: stop that server (the kernel's: systemctl stop nfs-server), or omit --register and give clients the ports", err)
	}
	return fmt.Errorf("--register: %w", err)
}
