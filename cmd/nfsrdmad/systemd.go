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

// A manager is the service manager that started the daemon, if it wants to hear
// from it (sd_notify(3)). Without one nothing is told to nobody.
type manager struct{ log *slog.Logger }

// tell sends assignments, each as one line.
func (m manager) tell(assignments ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(assignments, "\n")); err != nil {
		m.log.Warn("the service manager cannot be told", "err", err)
	}
}

// A readyWriter has the manager told once the ready line has been written.
type readyWriter struct {
	io.Writer
	p *operations
}

func (w readyWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	w.p.manager.tell(daemon.SdNotifyReady, "STATUS="+w.p.summary())
	return n, err
}

// ready is where the ready line is to go.
func (p *operations) ready(stdout io.Writer) io.Writer { return readyWriter{stdout, p} }

// summary is what the daemon does, in a line.
func (p *operations) summary() string {
	var at []string
	for _, w := range p.ways {
		at = append(at, w.Name+" "+w.Addr.String())
	}
	return fmt.Sprintf("Serving %d exports on %s", len(p.server.Exports()), strings.Join(at, ", "))
}

// drain notes that the daemon takes no more calls.
func (p *operations) drain() {
	p.draining.Store(true)
	p.manager.tell(daemon.SdNotifyStopping, "STATUS=Finishing the calls under way")
}

// reloading does what a SIGHUP asks for, while the manager knows of it.
func (p *operations) reloading(reload func()) {
	p.manager.tell(daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()))
	reload()
	p.manager.tell(daemon.SdNotifyReady, "STATUS="+p.summary())
}

// watchdog tells the manager that the daemon lives, twice in the time that it is
// given, until ctx ends: that the servers tell of themselves shows that nothing
// holds their locks for ever.
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
