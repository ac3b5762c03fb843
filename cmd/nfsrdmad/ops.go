package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/pflag"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// operatorOptions are serve's flags for the operator.
type operatorOptions struct {
	control      string
	controlGiven bool // control is not the default
	metrics      string
	trace        bool
	discoverOptions
}

func (o *operatorOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.control, "control", defaultControl(), "socket `PATH` for nfsrdmad status; \"\" for none")
	f.StringVar(&o.metrics, "metrics", "", "HTTP `ADDR` for a live page (/), /history (JSON), /metrics\n(Prometheus) and /healthz")
	f.BoolVar(&o.trace, "trace", false, "send OpenTelemetry spans for calls to OTEL_EXPORTER_OTLP_ENDPOINT")
	o.discoverOptions.addFlags(f)
}

// openServices starts the services for the operator in addition to the transports, and
// returns a function that stops them. After an error the endpoints are closed. The daemon
// drains when ctx is canceled.
func (p *runningDaemon) openServices(ctx context.Context, o *operatorOptions, endpoints []cli.Endpoint, log *slog.Logger) (end func(), err error) {
	p.endpoints, p.serviceManager = endpoints, serviceManager{log}
	var m *report.Server
	var c *controlSocket
	stopHistory := func() {}
	defer func() {
		if err != nil {
			c.close()
			m.Close()
			stopHistory()
			err = errors.Join(err, closeEndpoints(endpoints))
		}
	}()
	if !p.opened {
		if m, err = p.listenMetrics(o, log); err != nil {
			return nil, err
		}
	}
	stopHistory = p.startHistory()
	if !p.opened {
		if c, err = p.openControl(o, log); err != nil {
			return nil, err
		}
	}
	if err = p.openDiscover(&o.discoverOptions, log); err != nil {
		return nil, err
	}
	if err := p.sockets.Close(); err != nil {
		log.Warn("cannot close an unused inherited socket", "err", err)
	}
	drains := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drains)
		p.startDraining()
	})
	watched := p.startWatchdog()
	return func() {
		if !stop() {
			<-drains // the service manager must be notified before the process exits
		}
		watched()
		p.discovery.close()
		c.close()
		m.Close()
		stopHistory()
	}, nil
}

// listenMetrics starts the server for --metrics, if that is set.
func (p *runningDaemon) listenMetrics(o *operatorOptions, log *slog.Logger) (*report.Server, error) {
	if o.metrics == "" && !p.sockets.Has("metrics") {
		return nil, nil
	}
	l, err := p.sockets.Listen("metrics", o.metrics)
	if err != nil {
		return nil, cli.ListenError("--metrics", o.metrics, err, "")
	}
	p.metricsAddr = l.Addr()
	return report.NewServer(newHTTPServer(p.metricsHandler(), log)).Start(l), nil
}

// startHistory starts the history for the live page, if there is one.
func (p *runningDaemon) startHistory() (stop func()) {
	if p.metricsAddr == nil {
		return func() {}
	}
	p.history = report.NewHistory(p.reportSource)
	return p.history.Start() // the page needs its first sample
}

// openControl opens the control socket if one is configured. If the default socket fails,
// the daemon serves without it.
func (p *runningDaemon) openControl(o *operatorOptions, log *slog.Logger) (*controlSocket, error) {
	if o.control == "" {
		return nil, nil
	}
	c, err := openControl(o.control, p, log)
	if err != nil && !o.controlGiven {
		log.Warn("nfsrdmad status cannot contact this daemon", "err", err)
		return nil, nil
	}
	return c, err
}

// startWatchdog notifies the service manager's watchdog until end is called.
func (p *runningDaemon) startWatchdog() (end func()) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { p.runWatchdog(ctx, every) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// readyWords returns the ready line's words in addition to the transports.
func (p *runningDaemon) readyWords() string {
	words := ""
	if p.standby.isReadOnly() {
		words = "standby=read-only "
	}
	if p.metricsAddr != nil {
		words += "metrics=" + p.metricsAddr.String() + " "
	}
	if p.discovery != nil {
		words += "discover=" + p.discovery.dev.Addr().String() + " "
	}
	return words
}

// closeEndpoints closes endpoints that do not serve.
func closeEndpoints(endpoints []cli.Endpoint) error {
	var errs []error
	for _, w := range endpoints {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}
