package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/lockserver"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
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
		if udp, ok := w.Addr.(*net.UDPAddr); ok {
			list = append(list, lockServices(w.Name, udp.AddrPort())...)
			continue
		}
		at := w.Addr.(*net.TCPAddr).AddrPort()
		if w.Name == "tcp" { // to which clients on RDMA go too
			list = append(list, lockServices(w.Name, at)...)
		}
		list = append(list, rpcbind.Services(w.Name, at, nfs3.Program, nfs3.Version)...)
		list = append(list, rpcbind.Services(w.Name, at, nfsacl.Program, nfsacl.Version)...)
		list = append(list, rpcbind.Services(w.Name, at, mount3.Program, mount3.Version)...)
	}
	return list
}

// lockServices returns the programs of locks for version 3.
func lockServices(network string, at netip.AddrPort) []rpcbind.Service {
	return append(rpcbind.Services(network, at, nlm4.Program, lockserver.Versions[:]...), rpcbind.Services(network, at, nsm.Program, nsm.Version)...)
}

// split returns the services of locks, and the others.
func split(list []rpcbind.Service) (locks, others []rpcbind.Service) {
	for _, s := range list {
		if s.Prog == nlm4.Program || s.Prog == nsm.Program {
			locks = append(locks, s)
			continue
		}
		others = append(others, s)
	}
	return locks, others
}

// register registers the services with the rpcbind of host, until undo. A host has one lock manager: if
// another one is registered, register leaves out that of this server, and says so.
func register(ctx context.Context, host rpcbind.Host, list []rpcbind.Service, log *slog.Logger) (undo func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	locks, others := split(list)
	if err := host.Register(ctx, others); err != nil {
		return nil, registerError(err)
	}
	var taken *rpcbind.TakenError
	switch err := host.Register(ctx, locks); {
	case errors.As(err, &taken): // the kernel's lock manager or rpc.statd runs, and serves this host's own mounts
		log.Warn("clients of version 3 cannot lock files: let them mount with nolock, or by version 4, or stop what serves locks on this host "+
			"(for the kernel's NFS: systemctl stop nfs-server rpc-statd, and unmount version 3)", "err", taken)
		list = others
	case err != nil:
		return nil, errors.Join(registerError(err), host.Unregister(ctx, others))
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
