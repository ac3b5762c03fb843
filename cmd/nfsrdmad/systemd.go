package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// A manager is the service manager that started the daemon, if it asked for
// notifications (sd_notify(3)). Without a service manager the methods do
// nothing.
type manager struct{ log *slog.Logger }

// tell sends assignments, each as one line.
func (m manager) tell(assignments ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(assignments, "\n")); err != nil {
		m.log.Warn("cannot notify the service manager", "err", err)
	}
}

// A readyWriter notifies the manager once the ready line has been written.
type readyWriter struct {
	io.Writer
	p *operations
}

func (w readyWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	w.p.manager.tell(daemon.SdNotifyReady, "STATUS="+w.p.summary())
	return n, err
}

// ready returns the writer for the ready line.
func (p *operations) ready(stdout io.Writer) io.Writer { return readyWriter{stdout, p} }

// summary describes the daemon in one line.
func (p *operations) summary() string {
	var at []string
	for _, w := range p.ways {
		at = append(at, w.Name+" "+w.Addr.String())
	}
	return fmt.Sprintf("Serving %d exports on %s", len(p.server.Exports()), strings.Join(at, ", "))
}

// drain records that the daemon takes no more calls.
func (p *operations) drain() {
	p.draining.Store(true)
	p.manager.tell(daemon.SdNotifyStopping, "STATUS=Finishing the calls under way")
}

// reloading notifies the manager before and after a reload.
func (p *operations) reloading(reload func()) {
	p.manager.tell(daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
	reload()
	p.manager.tell(daemon.SdNotifyReady, "STATUS="+p.summary())
}

// watchdog notifies the manager that the daemon is alive, twice per watchdog
// interval, until ctx ends. Each time it first reads the state of the servers,
// which would block if a lock were held for ever.
func (p *operations) watchdog(ctx context.Context, every time.Duration) {
	t := time.NewTicker(every / 2)
	defer t.Stop()
	for {
		p.transports()
		p.connections()
		p.manager.tell(daemon.SdNotifyWatchdog)
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}
