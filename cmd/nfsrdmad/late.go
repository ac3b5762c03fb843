package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// A transportOpener opens one transport, at one address or at those of several passed sockets.
// opened are the transports that were opened before.
type transportOpener struct {
	name, addr string
	open       func(opened []cli.Endpoint) ([]cli.Endpoint, error)
}

// openTransports listens on all addresses, or on none. With an exports file, it returns those that may
// listen later in late, unless none of the others serves NFS: UDP serves only NFSv3 locks.
func (o *serveOptions) openTransports(server *nfsrdma.Server, log *slog.Logger) (endpoints []cli.Endpoint, late []*lateTransport, err error) {
	var errs []error
	for _, t := range o.transportOpeners(server) {
		all, err := t.open(endpoints)
		if err == nil {
			endpoints = append(endpoints, all...)
			continue
		}
		if o.exportsFile == "" || !cli.CanListenLater(err) {
			return nil, nil, errors.Join(err, closeEndpoints(endpoints))
		}
		errs = append(errs, err)
		late = append(late, &lateTransport{transportOpener: t, before: endpoints, daemon: &o.daemon, log: log, stopped: make(chan struct{})})
	}
	if len(endpoints) == 0 || endpoints[0].Name == "udp" {
		return nil, nil, errors.Join(errs[0], closeEndpoints(endpoints))
	}
	for _, err := range errs {
		log.Error("a transport is not served until it can listen", "err", err, "retry", retryInterval)
	}
	return endpoints, late, nil
}

// A lateTransport listens as soon as it can, and then serves.
type lateTransport struct {
	transportOpener
	before  []cli.Endpoint // opened before, at the start
	daemon  *runningDaemon
	log     *slog.Logger
	stopped chan struct{}

	mu     sync.Mutex
	opened *cli.Endpoint // nil: not yet
	isDone bool          // stopped is closed
}

// addEndpoints appends the endpoints of late transports, as they are now.
func addEndpoints(endpoints []cli.Endpoint, late []*lateTransport) []cli.Endpoint {
	for _, l := range late {
		endpoints = append(endpoints, l.endpoint())
	}
	return endpoints
}

// endpoint returns the open transport, or, before that, one that serves later.
func (l *lateTransport) endpoint() cli.Endpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened != nil {
		return *l.opened
	}
	return cli.Endpoint{Name: l.name, Addr: l, Serve: l.serve, Shutdown: l.shutdown}
}

// serve returns nil after shutdown.
func (l *lateTransport) serve() error {
	ticker := time.NewTicker(retryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-l.stopped:
			return nil
		case <-ticker.C:
		}
		all, err := l.open(l.before)
		if err != nil {
			continue
		}
		w := all[0] // a passed socket would have been opened at the start
		if !l.setOpened(&w) {
			return w.Close()
		}
		l.log.Info("a transport can listen now", "transport", w.Name, "address", w.Addr.String())
		l.daemon.serviceManager.notify("STATUS=" + l.daemon.summaryLine())
		return w.Serve()
	}
}

// setOpened records the open transport, and returns false after shutdown.
func (l *lateTransport) setOpened(w *cli.Endpoint) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isDone {
		l.opened = w
	}
	return !l.isDone
}

func (l *lateTransport) shutdown(ctx context.Context) error {
	l.mu.Lock()
	if !l.isDone {
		l.isDone = true
		close(l.stopped)
	}
	w := l.opened
	l.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.Shutdown(ctx)
}

// Network implements net.Addr.
func (l *lateTransport) Network() string { return l.name }

// String returns the address, and whether the transport listens there. It implements net.Addr.
func (l *lateTransport) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened == nil {
		return l.addr + " (not listening yet)"
	}
	return l.opened.Addr.String()
}
