package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// A serviceManager is the service manager that started the daemon, if it requested
// notifications (sd_notify(3)). Without a service manager, its methods do nothing.
type serviceManager struct{ log *slog.Logger }

// notify sends assignments, one per line.
func (m serviceManager) notify(assignments ...string) {
	if err := cli.NotifyManager(assignments...); err != nil {
		m.log.Warn("cannot notify the service manager", "err", err)
	}
}

// A readyWriter notifies the manager once the ready line has been written.
type readyWriter struct {
	io.Writer
	daemon *runningDaemon
}

func (w readyWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	w.daemon.serviceManager.notify(daemon.SdNotifyReady, "STATUS="+w.daemon.summaryLine())
	return n, err
}

// newReadyWriter returns the writer for the ready line.
func (p *runningDaemon) newReadyWriter(stdout io.Writer) io.Writer { return readyWriter{stdout, p} }

// summaryLine describes the daemon in one line.
func (p *runningDaemon) summaryLine() string {
	var at []string
	for _, w := range p.transports() {
		at = append(at, w.Name+" "+w.Addr.String())
	}
	return fmt.Sprintf("Serving %d exports on %s", len(p.server.Exports()), strings.Join(at, ", "))
}

// startDraining records that the daemon accepts no more calls.
func (p *runningDaemon) startDraining() {
	p.draining.Store(true)
	p.serviceManager.notify(daemon.SdNotifyStopping, "STATUS=Completing the calls in flight")
}

// notifyReload notifies the manager before and after a reload.
func (p *runningDaemon) notifyReload(reload func()) {
	p.serviceManager.notify(daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
	reload()
	p.serviceManager.notify(daemon.SdNotifyReady, "STATUS="+p.summaryLine())
}

// runWatchdog notifies the manager that the daemon is alive, twice per watchdog interval,
// until ctx is canceled. Each time it first reads the servers' state, which would block if a
// lock were never released.
func (p *runningDaemon) runWatchdog(ctx context.Context, every time.Duration) {
	t := time.NewTicker(every / 2)
	defer t.Stop()
	for {
		src := p.reportSource()
		src.CollectTransports()
		src.CollectConnections()
		p.serviceManager.notify(daemon.SdNotifyWatchdog)
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// passableSockets are the FileDescriptorNames of the sockets that a service manager may pass
// (sd_listen_fds(3)).
var passableSockets = []string{"rdma", "tcp", "metrics"}
