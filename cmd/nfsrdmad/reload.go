package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// onHangup applies the files of --exports, --idmap, --keytab and --tls-cert again at each
// SIGHUP and each order of nfsrdmad reload, until ctx ends or end is called. end waits
// for a reload under way, if its storage answers. Without such a file the signal keeps
// its default effect.
func (o *serveOptions) onHangup(ctx context.Context, s *shares, log *slog.Logger) (end func()) {
	defer close(o.ops.settled)
	if o.exportsFile == "" && o.idmapPath() == "" && o.tls == nil {
		return func() {}
	}
	signals := make(chan os.Signal, 1) // further pending signals add nothing
	signal.Notify(signals, unix.SIGHUP)
	orders := make(chan reloadOrder, 1) // one outlives a client that stops waiting
	if o.changed() {
		orders <- reloadOrder{true, make(chan error, 1)}
	}
	stop := onSignals(ctx, signals, orders, func(exportsOnly bool) (err error) {
		o.ops.reloading(func() {
			if exportsOnly {
				err = o.reload(ctx, s, log)
			} else {
				err = o.reloadAll(ctx, s, log)
			}
		})
		return err
	}, log)
	o.ops.orders.Store(&orders)
	return sync.OnceFunc(func() {
		o.ops.orders.Store(nil)
		stop()
		signal.Stop(signals)
	})
}

// changed reports whether the exports file is another than the daemon has read. Who
// changed it while the daemon started found nobody to give an order to.
func (o *serveOptions) changed() bool {
	if o.exportsFile == "" {
		return false
	}
	text, err := os.ReadFile(o.exportsFile)
	return err != nil || sum(text) != o.exportsSum
}

// reloadAll applies all files again: the keytab first, whose realms may be those of
// users. What is wrong is in the log too.
func (o *serveOptions) reloadAll(ctx context.Context, s *shares, log *slog.Logger) error {
	errs := []error{o.kerberos.reload(ctx, log), o.reloadIdmap(log)}
	if o.tls != nil {
		errs = append(errs, o.tls.Reload())
	}
	if o.exportsFile != "" {
		errs = append(errs, o.reload(ctx, s, log))
	}
	return errors.Join(errs...)
}

// onSignals calls reload for each signal, and for each order, which gets the result,
// until ctx ends or end is called. end waits at most closeTime for a call under way.
func onSignals(ctx context.Context, signals <-chan os.Signal, orders <-chan reloadOrder, reload func(exportsOnly bool) error, log *slog.Logger) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				_ = reload(false) // what is wrong is in the log
			case order := <-orders:
				order.done <- reload(order.exportsOnly)
			}
		}
	}()
	return func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(closeTime):
			log.Warn("the daemon ends while it applies the exports file, for storage does not answer: look at the disks or servers of the exports")
		}
	}
}

// reload applies the present exports file. If the file is wrong, reload changes
// nothing, and the error is in the log too.
func (o *serveOptions) reload(ctx context.Context, s *shares, log *slog.Logger) error {
	list, err := o.readFile(log)
	if err == nil {
		err = o.protect(list)
	}
	if err == nil {
		err = o.secure(ctx, list)
	}
	if err == nil {
		err = apply(o.ops.server, s, list)
	}
	if err != nil {
		for _, e := range causes(err) {
			log.Error("the exports stay as they were", "file", o.exportsFile, "err", e)
		}
		return fmt.Errorf("the exports stay as they were:\n%w", err)
	}
	o.warnOfPort(list, log)
	log.Info("the exports are as the file says", "file", o.exportsFile, "exports", readyNames(list))
	return nil
}

func apply(server *nfsserver.Server, s *shares, list []export) error {
	taken, keep, drop, err := s.take(list)
	if err != nil {
		return err
	}
	if err := server.SetExports(taken); err != nil {
		drop()
		return err
	}
	keep()
	return nil
}

// causes returns the errors joined in err.
func causes(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && errors.Unwrap(err) == nil {
		return joined.Unwrap()
	}
	return []error{err}
}
