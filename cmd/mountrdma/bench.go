package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/loadgen"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// Limits of bench.
const (
	maxBlock       = 1 << 26 // bytes, of the longest READ that any server offers
	maxDepth       = 4096    // calls: the limit of rpcrdma
	maxConnections = 10_000  // each has a descriptor
)

// benchOptions are the flags of bench.
type benchOptions struct {
	urls        []location
	op          cli.Choice
	vers        cli.Choice
	block       cli.Size
	depth       int
	connections int
	idle        int
	time        time.Duration
	json        bool
	report      string // name of a file, or ""
}

func (a *app) newBench() *cobra.Command {
	o := benchOptions{
		op:    cli.NewChoice("read", loadgen.Ops...),
		vers:  cli.NewChoice("3", "3", "4.1", "4.2"),
		block: 1 << 20, depth: 16, connections: 1, time: 5 * time.Second,
	}
	cmd := &cobra.Command{
		Use:   "bench URL --op OP",
		Short: "Measure throughput and latency of one kind of call",
		Long: `Measure throughput and latency of one kind of call, with --depth calls under
way.

read and write go through the file of URL from start to end, again and again;
randread and randwrite take its blocks in random order. The data of a READ are
placed directly into one buffer for each call under way. getattr asks for the
attributes of any object; null does nothing. readdirplus lists the directory of
URL from start to end, with handles and attributes; a whole listing counts as
one call. open uses one file of the directory of URL after the other: it opens
the file, reads its first block and closes it, by version 3 with LOOKUP, ACCESS
and READ. A file counts as one call.

With --vers 4.1 and 4.2, the path of URL begins at the root of the server's
version 4 namespace ("mountrdma info" lists the exports there), and null is a
SEQUENCE.

Each of --connections has --depth calls under way. --idle adds connections that
are idle after their first call.

write and randwrite OVERWRITE THE FILE, which must exist, within its present
length, with meaningless data. They are not stable (UNSTABLE); the COMMIT at the
end is not measured.

--json prints one object: op block depth connections seconds bytes ops MBps iops
lat_us{min,p50,p95,p99,max} client_cpu_s. MBps is millions of bytes in a second.

--report also writes a page for a browser: the same figures, how calls were
spread over latencies, and what was agreed with the server. The page needs no
other file, and no network.`,
		Example: `  mountrdma bench nfs://server/data/1g --op read --json
  mountrdma bench nfs://server/data/1g --op randread --block 4KiB --depth 64
  mountrdma bench nfs://server/data/1g --report read.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := a.urls(&o.urls)(cmd, args); err != nil {
				return err
			}
			return o.check()
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.bench(cmd.Context(), &o) },
	}
	f := cmd.Flags()
	f.Var(&o.op, "op", "kind of call")
	f.Var(&o.vers, "vers", "version of NFS")
	f.Var(&o.block, "block", "bytes of a READ or WRITE")
	f.IntVar(&o.depth, "depth", o.depth, "calls under way on a connection")
	f.IntVar(&o.connections, "connections", o.connections, "connections that make calls")
	f.IntVar(&o.idle, "idle", o.idle, "additional connections that make none")
	f.DurationVar(&o.time, "time", o.time, "how long")
	f.BoolVar(&o.json, "json", false, "as a JSON object")
	f.StringVar(&o.report, "report", "", "also write a page for a browser to `FILE`")
	return cmd
}

// check checks the ranges that pflag cannot check. Its error is a usage error.
func (o *benchOptions) check() error {
	if len(o.urls) != 1 {
		return errors.New("bench needs one URL: nfs://SERVER[:PORT]/EXPORT/PATH")
	}
	if o.time <= 0 {
		return errors.New("--time must be more than 0")
	}
	return errors.Join(
		cli.Within("--block", int64(o.block), 1, maxBlock),
		cli.Within("--depth", int64(o.depth), 1, maxDepth),
		cli.Within("--connections", int64(o.connections), 1, maxConnections),
		cli.Within("--idle", int64(o.idle), 0, maxConnections),
	)
}

// benchResult is the output of --json, which scripts depend on.
type benchResult struct {
	Op          string  `json:"op"`
	Block       int     `json:"block"` // bytes
	Depth       int     `json:"depth"` // of each connection
	Connections int     `json:"connections"`
	Seconds     float64 `json:"seconds"`
	Bytes       int64   `json:"bytes"`
	Ops         int64   `json:"ops"`
	MBps        float64 `json:"MBps"`
	IOPS        float64 `json:"iops"`
	Latency     latency `json:"lat_us"`
	CPU         float64 `json:"client_cpu_s"`
}

type latency struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// result returns the output for a measurement.
func (o *benchOptions) result(r *loadgen.Result) *benchResult {
	return &benchResult{
		Op: o.op.Word, Block: r.Block, Depth: o.depth, Connections: o.connections, Seconds: r.Seconds,
		Bytes: r.Bytes, Ops: r.Ops, MBps: float64(r.Bytes) / 1e6 / r.Seconds, IOPS: float64(r.Ops) / r.Seconds,
		Latency: latency{Min: micro(r.Min), P50: micro(r.P50), P95: micro(r.P95), P99: micro(r.P99), Max: micro(r.Max)},
		CPU:     r.CPU.Seconds(),
	}
}

// bench runs the measurement and prints the result.
func (a *app) bench(ctx context.Context, o *benchOptions) error {
	page, err := openReport(o.report)
	if err != nil {
		return err
	}
	defer page.abandon()
	links, path, err := a.benchLinks(ctx, o)
	if links != nil {
		defer links.close(a)
	}
	if err != nil {
		return err
	}
	l, err := loadgen.New(ctx, links.busy[0], path, loadgen.Config{
		Op: o.op.Word, Block: int(o.block), Depth: o.depth, Time: o.time,
	})
	if lost := lost(ctx, err); lost != nil {
		return lost
	}
	if err != nil {
		return (remote{location: o.urls[0], rest: path, session: &session{cred: a.cred()}}).explain(err)
	}
	res, err := l.Run(ctx, links.busy)
	if err == nil {
		err = l.End(ctx)
	}
	if lost := lost(ctx, err); lost != nil {
		return lost
	}
	if err != nil {
		return &plainError{o.urls[0].String(), err, a.cred().UID}
	}
	result := o.result(&res)
	if o.json {
		err = printJSON(a.stdout, result)
	} else {
		err = result.print(a.stdout)
	}
	if page != nil { // last: the measurement counts without it
		err = errors.Join(err, a.writeReport(ctx, page, o, links, result, res.Bars))
	}
	return err
}

// subject connects to the server and finds the object of the calls. For null
// the object need not exist.
func (a *app) subject(ctx context.Context, o *benchOptions) (remote, error) {
	if o.op.Word != "null" {
		return a.open(ctx, o.urls[0])
	}
	within, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	s, err := a.session(within, o.urls[0].server)
	return remote{location: o.urls[0], session: s}, err
}

// benchLinks makes the connections of bench. It also returns the path of the
// object as loadgen wants it.
func (a *app) benchLinks(ctx context.Context, o *benchOptions) (*links, string, error) {
	if minor, ok := minors[o.vers.Word]; ok {
		ls, err := a.links4(ctx, o, minor)
		return ls, o.urls[0].path, err
	}
	r, err := a.subject(ctx, o)
	if err != nil {
		return new(links), "", a.otherVersion(err)
	}
	ls, err := a.links(ctx, r, o)
	return ls, r.rest, err
}

// otherVersion adds to the error of a server without version 3 how to measure
// it all the same.
func (a *app) otherVersion(err error) error {
	step, ok := errors.AsType[*stepError](err)
	if refused, mismatch := errors.AsType[*oncrpc.ReplyError](err); ok && mismatch && refused.High >= nfs4.Version {
		step.remedy = "measure version 4 with --vers 4.2, or " + step.remedy
	}
	return err
}

func (r *benchResult) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, `%s: blocks of %d bytes, %d calls under way on each of %d connections, %.2f s
%.1f MB/s, %.0f calls/s
latency p50 %.1f µs, p99 %.1f µs, max %.1f µs
client CPU %.2f s
`, r.Op, r.Block, r.Depth, r.Connections, r.Seconds, r.MBps, r.IOPS, r.Latency.P50, r.Latency.P99, r.Latency.Max, r.CPU)
	return err
}
