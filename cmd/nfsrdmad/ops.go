package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/pflag"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// opsOptions are the flags of serve for the operator.
type opsOptions struct {
	control      string
	controlGiven bool // control is not the default
	metrics      string
	trace        bool
	discoverOptions
}

func (o *opsOptions) add(f *pflag.FlagSet) {
	f.StringVar(&o.control, "control", defaultControl(), "socket `PATH` for nfsrdmad status; \"\" for none")
	f.StringVar(&o.metrics, "metrics", "", "`ADDR` for a live page at /, /metrics (Prometheus), /healthz and /debug/pprof/")
	f.BoolVar(&o.trace, "trace", false, "send OpenTelemetry spans of calls to OTEL_EXPORTER_OTLP_ENDPOINT")
	o.discoverOptions.add(f)
}

// open opens the services for the operator in addition to the transports, and
// returns a function that closes them. The daemon drains after ctx has ended.
func (p *operations) open(ctx context.Context, o *opsOptions, ways []cli.Way, log *slog.Logger) (end func(), err error) {
	p.ways, p.manager = ways, manager{log}
	m, err := p.openMetrics(o, log)
	if err != nil {
		return nil, errors.Join(err, closeWays(ways))
	}
	c, err := p.openControl(o, log)
	if err != nil {
		m.close()
		return nil, errors.Join(err, closeWays(ways))
	}
	if err := p.openDiscover(&o.discoverOptions, log); err != nil {
		c.close()
		m.close()
		return nil, errors.Join(err, closeWays(ways))
	}
	if err := p.passed.close(); err != nil {
		log.Warn("cannot close an unused inherited socket", "err", err)
	}
	stop := context.AfterFunc(ctx, p.drain)
	watched := p.startWatchdog()
	return func() {
		stop()
		watched()
		p.discovery.close()
		c.close()
		m.close()
	}, nil
}

// openMetrics opens the server of --metrics, if that is set.
func (p *operations) openMetrics(o *opsOptions, log *slog.Logger) (*monitor, error) {
	if o.metrics == "" && p.passed["metrics"] == nil {
		return nil, nil
	}
	l, err := p.passed.listen("metrics", o.metrics)
	if err != nil {
		return nil, cli.ListenError("--metrics", o.metrics, err, "")
	}
	p.metrics = l.Addr()
	return newMonitor(p.monitor(), log).serve(l), nil
}

// openControl opens the control socket, if one is configured. If the default
// socket fails, the daemon serves without it.
func (p *operations) openControl(o *opsOptions, log *slog.Logger) (*control, error) {
	if o.control == "" {
		return nil, nil
	}
	c, err := openControl(o.control, p, log)
	if err != nil && !o.controlGiven {
		log.Warn("nfsrdmad status will not find this daemon", "err", err)
		return nil, nil
	}
	return c, err
}

// startWatchdog starts the notifications for the service manager's watchdog,
// until end is called.
func (p *operations) startWatchdog() (end func()) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.watchdog(ctx, every) })
	return func() {
		cancel()
		running.Wait()
	}
}

// words returns the words of the ready line in addition to the transports.
func (p *operations) words() string {
	words := ""
	if p.metrics != nil {
		words += "metrics=" + p.metrics.String() + " "
	}
	if p.discovery != nil {
		words += "discover=" + p.discovery.dev.Addr().String() + " "
	}
	return words
}

func closeWays(ways []cli.Way) error {
	var errs []error
	for _, w := range ways {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}
