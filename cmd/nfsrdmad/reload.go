package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// onHangup applies the files of --exports, --idmap, --keytab and --tls-cert again at each
// SIGHUP, until ctx ends or end is called. end waits for a reload under way, if its
// storage answers. Without such a file the signal keeps its default effect.
func (o *serveOptions) onHangup(ctx context.Context, s *shares, log *slog.Logger) (end func()) {
	if o.exportsFile == "" && o.idmapPath() == "" && o.tls == nil {
		return func() {}
	}
	signals := make(chan os.Signal, 1) // further pending signals add nothing
	signal.Notify(signals, unix.SIGHUP)
	stop := onSignals(ctx, signals, func() { o.ops.reloading(func() { o.reloadAll(ctx, s, log) }) }, log)
	return sync.OnceFunc(func() {
		stop()
		signal.Stop(signals)
	})
}

// reloadAll applies all files again: the keytab first, whose realms may be those of
// users.
func (o *serveOptions) reloadAll(ctx context.Context, s *shares, log *slog.Logger) {
	o.kerberos.reload(ctx, log)
	o.reloadIdmap(log)
	if o.tls != nil {
		_ = o.tls.Reload() // an error is in the log
	}
	if o.exportsFile != "" {
		o.reload(ctx, s, log)
	}
}

// onSignals calls reload for each signal, until ctx ends or end is called. end
// waits at most closeTime for a call under way.
func onSignals(ctx context.Context, signals <-chan os.Signal, reload func(), log *slog.Logger) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				reload()
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
// nothing and logs the reason.
func (o *serveOptions) reload(ctx context.Context, s *shares, log *slog.Logger) bool {
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
		return false
	}
	o.warnOfPort(list, log)
	log.Info("the exports are as the file says", "file", o.exportsFile, "exports", readyNames(list))
	return true
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
