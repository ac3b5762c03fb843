package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// opsOptions are the flags of serve that are for whoever operates the daemon.
type opsOptions struct {
	control      string
	controlGiven bool // and not the default
	metrics      string
}

func (o *opsOptions) add(f *pflag.FlagSet) {
	f.StringVar(&o.control, "control", defaultControl(), "socket `PATH` for nfsrdmad status; \"\" for none")
	f.StringVar(&o.metrics, "metrics", "", "`ADDR` for /metrics (Prometheus), /healthz and /debug/pprof/")
}

// open opens what a daemon is operated by, beside the transports, and returns what
// closes it. From ctx's end on the daemon drains.
func (p *operations) open(ctx context.Context, o *opsOptions, ways []cli.Way, log *slog.Logger) (end func(), err error) {
	p.ways = ways
	c, err := p.openControl(o, log)
	if err != nil {
		return nil, errors.Join(err, closeWays(ways))
	}
	stop := context.AfterFunc(ctx, func() { p.draining.Store(true) })
	return func() {
		stop()
		c.close()
	}, nil
}

// openControl opens the control socket, if there is to be one. That the default
// one cannot be had is no reason not to serve.
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

func closeWays(ways []cli.Way) error {
	var errs []error
	for _, w := range ways {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}
