package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs/nfsacl"
	"github.com/nfsrdma/nfsrdma/nfs/nlm4"
	"github.com/nfsrdma/nfsrdma/nfs/nsm"
	"github.com/nfsrdma/nfsrdma/nfsserver/nlmserver"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcbind"
)

// registerTimeout is the time limit for the host's rpcbind to reply.
const registerTimeout = 5 * time.Second

// registerPorts makes the transports' ports known to clients as the flags request: with our
// own portmapper, which becomes another endpoint, or in the host's rpcbind, until undo is
// called. After an error the transports are closed.
func (o *serveOptions) registerPorts(ctx context.Context, transports []cli.Endpoint, log *slog.Logger) (endpoints []cli.Endpoint, undo func(), err error) {
	undo = func() {}
	switch {
	case o.portmap != "":
		endpoints, err = o.openPortmap(transports, log)
	case o.registers():
		endpoints = transports
		undo, err = o.startRegistrar(ctx, rpcbind.Host{}, log)
	default:
		return transports, undo, nil
	}
	if err != nil {
		err = errors.Join(err, closeEndpoints(transports))
	}
	return endpoints, undo, err
}

// openPortmap adds the portmapper to the endpoints.
func (o *serveOptions) openPortmap(transports []cli.Endpoint, log *slog.Logger) ([]cli.Endpoint, error) {
	l, err := rpcbind.Listen(o.portmap)
	if err != nil {
		return nil, cli.ListenError("--portmap", o.portmap, err,
			", or, if rpcbind uses the port, omit --portmap and register with it by --register")
	}
	p := rpcbind.NewPortmapper(append(l.Services(), rpcServices(transports)...))
	return append(transports, cli.NewEndpoint("portmap", l, rpcbind.NewServer(p, log))), nil
}

// rpcServices returns the programs with their addresses. The transports' names are rpcbind's
// netids. rpcbind has one address for a program and netid: the first of each transport.
func rpcServices(transports []cli.Endpoint) (list []rpcbind.Service) {
	seen := make(map[string]bool)
	for _, w := range transports {
		if seen[w.Name] {
			continue
		}
		seen[w.Name] = true
		if udp, ok := w.Addr.(*net.UDPAddr); ok {
			list = append(list, lockServices(w.Name, udp.AddrPort())...)
			continue
		}
		tcp, ok := w.Addr.(*net.TCPAddr)
		if !ok { // it does not listen yet
			continue
		}
		at := tcp.AddrPort()
		if w.Name == "tcp" { // clients on RDMA use it too
			list = append(list, lockServices(w.Name, at)...)
		}
		list = append(list, rpcbind.Services(w.Name, at, nfs3.Program, nfs3.Version)...)
		list = append(list, rpcbind.Services(w.Name, at, nfsacl.Program, nfsacl.Version)...)
		list = append(list, rpcbind.Services(w.Name, at, mount3.Program, mount3.Version)...)
	}
	return list
}

// lockServices returns the NFSv3 lock programs.
func lockServices(network string, at netip.AddrPort) []rpcbind.Service {
	return append(rpcbind.Services(network, at, nlm4.Program, nlmserver.Versions[:]...), rpcbind.Services(network, at, nsm.Program, nsm.Version)...)
}

// splitLockServices separates the lock services from the others.
func splitLockServices(list []rpcbind.Service) (locks, others []rpcbind.Service) {
	for _, s := range list {
		if s.Prog == nlm4.Program || s.Prog == nsm.Program {
			locks = append(locks, s)
			continue
		}
		others = append(others, s)
	}
	return locks, others
}

// registerServices registers the services with host's rpcbind, and returns those that are
// registered. A host has only one lock manager: if another one is registered, registerServices
// omits this server's and logs a warning.
func registerServices(ctx context.Context, host rpcbind.Host, list []rpcbind.Service, log *slog.Logger) ([]rpcbind.Service, error) {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	locks, others := splitLockServices(list)
	if err := host.Register(ctx, others); err != nil {
		return nil, registerError(err)
	}
	var taken *rpcbind.TakenError
	switch err := host.Register(ctx, locks); {
	case errors.As(err, &taken): // the kernel's lock manager or rpc.statd serves this host's own mounts
		log.Warn("NFSv3 clients cannot lock files: let them mount with nolock or NFSv4, or stop the lock service on this host "+
			"(for the kernel's NFS: systemctl stop nfs-server rpc-statd, and unmount NFSv3 file systems)", "err", taken)
		list = others
	case err != nil:
		return nil, errors.Join(registerError(err), host.Unregister(ctx, others))
	}
	return list, nil
}

// registers reports whether the ports are registered with rpcbind, if it responds.
func (o *serveOptions) registers() bool {
	return o.register.Word == "on" || o.register.Word == "auto" && !o.noNFS3
}

// registerInterval is the time after which a registrar looks at rpcbind again.
const registerInterval = 10 * time.Second

// A registrar keeps services registered with a host's rpcbind, which loses them when it restarts.
type registrar struct {
	host     rpcbind.Host
	services func() []rpcbind.Service // as they are now
	log      *slog.Logger

	wanted     []rpcbind.Service // at the last registration
	registered []rpcbind.Service // of these; lock services may be missing
	lastErr    string            // logged last
}

// startRegistrar registers the ports until undo is called. With --register=on, an error of the
// first attempt is returned.
func (o *serveOptions) startRegistrar(ctx context.Context, host rpcbind.Host, log *slog.Logger) (undo func(), err error) {
	r := &registrar{host: host, services: func() []rpcbind.Service { return rpcServices(o.daemon.transports()) }, log: log}
	if o.register.Word == "on" {
		err = r.register(ctx, r.services())
	} else {
		r.refresh(ctx)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // clients can mount until undo
	var wg sync.WaitGroup
	wg.Go(func() { r.run(ctx) })
	return func() {
		cancel()
		wg.Wait()
		r.unregister()
	}, nil
}

func (r *registrar) run(ctx context.Context) {
	ticker := time.NewTicker(registerInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.refresh(ctx)
		}
	}
}

// refresh registers the services unless rpcbind has them. It logs an error once, and none if there
// is no rpcbind: it may be started later.
func (r *registrar) refresh(ctx context.Context) {
	list := r.services()
	if slices.Equal(list, r.wanted) {
		ctx, cancel := context.WithTimeout(ctx, registerTimeout)
		defer cancel()
		if has, err := r.host.HasAll(ctx, r.registered); has && err == nil {
			return
		}
	}
	before := r.registered
	err := r.register(ctx, list)
	switch {
	case err == nil:
		r.lastErr = ""
		r.log.Info("the ports are registered with rpcbind")
	case ctx.Err() != nil: // the daemon is exiting
	case errors.Is(err, rpcbind.ErrNoRPCBind):
		if before != nil {
			r.log.Warn("rpcbind does not respond any more; the ports are registered again when it does")
		}
	case err.Error() != r.lastErr:
		r.lastErr = err.Error()
		r.log.Warn("NFSv3 clients cannot find the ports", "err", err)
	}
}

// register registers list.
func (r *registrar) register(ctx context.Context, list []rpcbind.Service) (err error) {
	r.wanted, r.registered = nil, nil
	if r.registered, err = registerServices(ctx, r.host, list, r.log); err == nil {
		r.wanted = list
	}
	return err
}

// unregister removes the registrations.
func (r *registrar) unregister() {
	if r.wanted == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), registerTimeout)
	defer cancel()
	if err := r.host.Unregister(ctx, r.registered); err != nil {
		r.log.Warn("cannot unregister from rpcbind; remove the registration with rpcinfo -d", "err", err)
	}
}

// registerError adds a remedy to an error from rpcbind.Host.Register.
func registerError(err error) error {
	var taken *rpcbind.TakenError
	switch {
	case errors.Is(err, rpcbind.ErrNoRPCBind):
		return fmt.Errorf("%w: start it (systemctl start rpcbind), or replace it with --portmap :111", err)
	case errors.As(err, &taken):
		return fmt.Errorf("%w: stop that server (the kernel's: systemctl stop nfs-server), or omit --register and give clients the ports", err)
	}
	return fmt.Errorf("--register: %w", err)
}
