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

	"github.com/nfsrdma/nfsrdma"
)

// startReloads reloads the files of --exports, --idmap, --keytab and --tls-cert at each SIGHUP
// and each order from nfsrdmad reload, until ctx is canceled or end is called. end waits for a
// reload in progress if its storage responds. Without such a file, the signal keeps its
// default effect.
func (o *serveOptions) startReloads(ctx context.Context, s *shareSet, log *slog.Logger) (end func()) {
	defer close(o.daemon.reloadsReady)
	if o.exportsFile == "" && o.idmapPath() == "" && o.tls == nil {
		return func() {}
	}
	signals := make(chan os.Signal, 1) // more pending signals have no effect
	signal.Notify(signals, unix.SIGHUP)
	orders := make(chan reloadOrder, 1) // one order survives a client that stops waiting
	if o.exportsFileChanged() {
		orders <- reloadOrder{exportsOnly: true, done: make(chan error, 1)}
	}
	mounts, stopWatch := watchMounts()
	stop := serveReloads(ctx, signals, orders, func(order reloadOrder) (err error) {
		o.daemon.notifyReload(func() {
			switch {
			case order.edit != nil:
				err = o.editTemporary(ctx, s, order.edit, log)
			case order.exportsOnly:
				err = o.reloadExports(ctx, s, log)
			default:
				err = o.reloadAll(ctx, s, log)
				o.daemon.setReloaded(err == nil)
			}
		})
		return err
	}, func() { o.retryExports(ctx, s, log) }, mounts, log)
	o.daemon.orders.Store(&orders)
	return sync.OnceFunc(func() {
		o.daemon.orders.Store(nil)
		stop()
		stopWatch()
		signal.Stop(signals)
	})
}

// exportsFileChanged reports whether the exports file has changed since the daemon read it.
// A command that changed it while the daemon started could not send an order.
func (o *serveOptions) exportsFileChanged() bool {
	if o.exportsFile == "" {
		return false
	}
	sources, _ := readSources(o.exportsFile)
	return sumSources(sources) != o.exportsSum
}

// reloadAll reloads all files: the keytab first, because its realms may be those of users.
// Errors are logged, too.
func (o *serveOptions) reloadAll(ctx context.Context, s *shareSet, log *slog.Logger) error {
	errs := []error{o.kerberos.rereadKeytab(ctx, log), o.reloadIdmap(log)}
	if o.tls != nil {
		errs = append(errs, o.tls.Reload())
	}
	if o.exportsFile != "" {
		errs = append(errs, o.reloadExports(ctx, s, log))
	}
	return errors.Join(errs...)
}

// serveReloads calls reload for each signal and for each order, which receives the result, and
// retry at every retryInterval and after each change of mounts, until ctx is canceled or end is
// called. end waits at most closeTimeout for a call in progress.
func serveReloads(ctx context.Context, signals <-chan os.Signal, orders <-chan reloadOrder, reload func(reloadOrder) error, retry func(), mounts <-chan struct{}, log *slog.Logger) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(retryInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				_ = reload(reloadOrder{}) // errors are logged
			case order := <-orders:
				order.done <- reload(order)
			case <-ticker.C:
				retry()
			case <-mounts:
				retry()
			}
		}
	}()
	return func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(closeTimeout):
			log.Warn("exiting during a reload of the exports file, because storage does not respond: check the disks or servers of the exports")
		}
	}
}

// reloadExports applies the current exports file. If the file is invalid, it changes nothing,
// and the error is logged, too.
func (o *serveOptions) reloadExports(ctx context.Context, s *shareSet, log *slog.Logger) error {
	list, err := o.readExportsFile(log)
	if err == nil {
		err = o.checkStandbyExports(list)
	}
	if err == nil {
		o.findFaults(ctx, list)
		err = applyExports(o.daemon.server, s, list)
	}
	o.daemon.setReloaded(err == nil)
	if err != nil {
		for _, e := range splitJoined(err) {
			log.Error("cannot reload the exports file: the exports are unchanged", "file", o.exportsFile, "err", e)
		}
		return fmt.Errorf("the exports are unchanged:\n%w", err)
	}
	o.warnAboutGSSPort(list, log)
	log.Info("the exports were reloaded", "file", o.exportsFile, "exports", formatExportNames(list))
	return nil
}

// editTemporary changes the lines of exports add --until-restart, and applies them with the exports
// files.
func (o *serveOptions) editTemporary(ctx context.Context, s *shareSet, edit func([]byte) ([]byte, error), log *slog.Logger) error {
	before := o.temporary
	after, err := edit(before)
	if err != nil {
		return err
	}
	o.temporary = after
	if err = o.reloadExports(ctx, s, log); err != nil {
		o.temporary = before
	}
	return err
}

// setReloaded records the result of a reload, or of the start, for the metrics.
func (p *runningDaemon) setReloaded(ok bool) {
	p.reloadFailed.Store(!ok)
	if ok {
		p.reloadTime.Store(time.Now().UnixNano())
	}
}

// applyExports serves the exports in list, or changes nothing if one that is not unavailable
// already cannot be served.
func applyExports(server *nfsrdma.Server, s *shareSet, list []exportSpec) error {
	taken, keep, drop, err := s.acquireShares(list, s.isUnavailable)
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

// splitJoined returns the errors that are joined in err, or none if err is nil.
func splitJoined(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok && errors.Unwrap(err) == nil {
		return joined.Unwrap()
	}
	return []error{err}
}
