package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/loadgen"
)

// maxPings bounds the memory for round-trip times, 8 bytes each.
const maxPings = 10_000_000

// pingOptions are the flags of ping.
type pingOptions struct {
	server server
	count  int
	json   bool
}

func (a *app) newPing() *cobra.Command {
	o := pingOptions{count: 10}
	cmd := &cobra.Command{
		Use:   "ping SERVER[:PORT] [-c N]",
		Short: "Measure the round-trip time of NULL calls",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := a.serverArg(&o.server)(cmd, args); err != nil {
				return err
			}
			return cli.CheckRange("--count", int64(o.count), 1, maxPings)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runPing(cmd.Context(), &o) },
	}
	cmd.Flags().IntVarP(&o.count, "count", "c", o.count, "number of calls, sent one after another")
	cmd.Flags().BoolVar(&o.json, "json", false, "print a JSON object")
	return cmd
}

// pingResult is the output of --json, which scripts depend on. Times are in
// microseconds.
type pingResult struct {
	Server string  `json:"server"`
	Count  int     `json:"count"`
	Min    float64 `json:"min_us"`
	Median float64 `json:"median_us"`
	P99    float64 `json:"p99_us"`
	Max    float64 `json:"max_us"`
}

func (a *app) runPing(ctx context.Context, o *pingOptions) error {
	within, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	s, err := a.openSession(within, o.server)
	if err != nil {
		return err
	}
	took := make([]time.Duration, o.count)
	for i := range took {
		start := time.Now()
		if err := s.nfs.Null(ctx); err != nil {
			if lost := fatalError(ctx, err); lost != nil {
				return lost
			}
			return firstCallError(ctx, s.serverAddr(), err)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	r := pingResult{
		Server: s.serverAddr(), Count: o.count,
		Min: toMicros(took[0]), Median: toMicros(loadgen.Quantile(took, 0.5)), P99: toMicros(loadgen.Quantile(took, 0.99)), Max: toMicros(took[o.count-1]),
	}
	if o.json {
		return printJSON(a.stdout, r)
	}
	_, err = fmt.Fprintf(a.stdout, "%d round trips to %s: min %.1f µs, median %.1f µs, p99 %.1f µs, max %.1f µs\n",
		r.Count, r.Server, r.Min, r.Median, r.P99, r.Max)
	return err
}

func toMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
