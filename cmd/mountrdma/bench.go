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
	maxBlock       = 1 << 26 // bytes: the longest READ that any server offers
	maxDepth       = 4096    // calls: rpcrdma's limit
	maxConnections = 10_000  // each uses a file descriptor
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
	report      string // file name, or ""
}

func (a *app) newBench() *cobra.Command {
	o := benchOptions{
		op:    cli.NewChoice("read", loadgen.Ops...),
		vers:  cli.NewChoice("3", "3", "4.1", "4.2"),
		block: 1 << 20, depth: 16, connections: 1, time: 5 * time.Second,
	}
	cmd := &cobra.Command{
		Use:   "bench URL --op OP",
		Short: "Measure the throughput and latency of one operation",
		Long: `Measure the throughput and latency of one operation, with --depth calls in
flight.

read and write go through the URL's file from start to end, repeatedly; randread
and randwrite access its blocks in random order. Each call in flight has one
buffer, into which READ data are placed directly. getattr gets the attributes of
any object; null does nothing. readdirplus lists the URL's directory from start
to end, with handles and attributes; a complete listing counts as one call. open
goes through the files in the URL's directory: it opens a file, reads its first
block and closes it, or over NFSv3 sends LOOKUP, ACCESS and READ. Each file counts
as one call.

With --vers 4.1 and 4.2, the URL's path begins at the root of the server's NFSv4
namespace ("mountrdma info" lists the exports there), and null is a SEQUENCE.

Each of --connections has --depth calls in flight. --idle adds connections that
are idle after their first call.

write and randwrite OVERWRITE THE FILE with meaningless data. It must exist, and
its size does not change. The WRITEs are UNSTABLE; the COMMIT at the end is not
measured.

--json prints one object: op block depth connections seconds bytes ops MBps iops
lat_us{min,p50,p95,p99,max} client_cpu_s lost_s. MBps is millions of bytes per
second, as are the MB/s of the text; sizes are in KiB and MiB, powers of 1024. lost_s
is the time during which the connection was lost (over NFSv3); it also counts in the
other figures.

--report also writes an HTML page with the same figures, the latency distribution
and the settings negotiated with the server. The page needs no other file and no
network.`,
		Example: `  mountrdma bench nfs://server/data/1g --op read --json
  mountrdma bench nfs://server/data/1g --op randread --block 4KiB --depth 64
  mountrdma bench nfs://server/data/1g --report read.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := a.parseURLs(&o.urls)(cmd, args); err != nil {
				return err
			}
			return o.checkRanges()
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runBench(cmd.Context(), &o) },
	}
	f := cmd.Flags()
	f.Var(&o.op, "op", "operation to measure")
	f.Var(&o.vers, "vers", "NFS version")
	f.Var(&o.block, "block", "bytes per READ or WRITE")
	f.IntVar(&o.depth, "depth", o.depth, "calls in flight on a connection")
	f.IntVar(&o.connections, "connections", o.connections, "connections that send calls")
	f.IntVar(&o.idle, "idle", o.idle, "additional idle connections")
	f.DurationVar(&o.time, "time", o.time, "duration of the measurement")
	f.BoolVar(&o.json, "json", false, "print a JSON object")
	f.StringVar(&o.report, "report", "", "also write an HTML report to `FILE`")
	return cmd
}

// checkRanges checks the ranges that pflag cannot check. Its errors are usage errors.
func (o *benchOptions) checkRanges() error {
	if len(o.urls) != 1 {
		return errors.New("bench needs one URL: nfs://SERVER[:PORT]/EXPORT/PATH")
	}
	if o.time <= 0 {
		return errors.New("--time must be more than 0")
	}
	return errors.Join(
		cli.CheckRange("--block", int64(o.block), 1, maxBlock),
		cli.CheckRange("--depth", int64(o.depth), 1, maxDepth),
		cli.CheckRange("--connections", int64(o.connections), 1, maxConnections),
		cli.CheckRange("--idle", int64(o.idle), 0, maxConnections),
	)
}

// benchResult is the output of --json, which scripts depend on.
type benchResult struct {
	Op          string        `json:"op"`
	Block       int           `json:"block"` // bytes
	Depth       int           `json:"depth"` // per connection
	Connections int           `json:"connections"`
	Seconds     float64       `json:"seconds"`
	Bytes       int64         `json:"bytes"`
	Ops         int64         `json:"ops"`
	MBps        float64       `json:"MBps"`
	IOPS        float64       `json:"iops"`
	Latency     latencyResult `json:"lat_us"`
	CPU         float64       `json:"client_cpu_s"`
	Lost        float64       `json:"lost_s"` // time without the connection
}

type latencyResult struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// newResult converts a measurement to the output.
func (o *benchOptions) newResult(r *loadgen.Result) *benchResult {
	return &benchResult{
		Op: o.op.Word, Block: r.Block, Depth: o.depth, Connections: o.connections, Seconds: r.Seconds,
		Bytes: r.Bytes, Ops: r.Ops, MBps: float64(r.Bytes) / 1e6 / r.Seconds, IOPS: float64(r.Ops) / r.Seconds,
		Latency: latencyResult{Min: toMicros(r.Min), P50: toMicros(r.P50), P95: toMicros(r.P95), P99: toMicros(r.P99), Max: toMicros(r.Max)},
		CPU:     r.CPU.Seconds(),
	}
}

// runBench measures and prints the result.
func (a *app) runBench(ctx context.Context, o *benchOptions) error {
	page, err := openReport(o.report)
	if err != nil {
		return err
	}
	defer page.discard()
	links, path, err := a.dialBench(ctx, o)
	if links != nil {
		defer links.closeAll(a)
	}
	if err != nil {
		return err
	}
	l, err := loadgen.New(ctx, links.active[0], path, loadgen.Config{
		Op: o.op.Word, Block: int(o.block), Depth: o.depth, Time: o.time,
	})
	if lost := fatalError(ctx, err); lost != nil {
		return lost
	}
	if err != nil {
		return (remote{location: o.urls[0], rest: path, session: &session{cred: a.callCred()}}).explainError(err)
	}
	stop := watchOutages(func() bool { return a.isUp(o.urls[0].server) })
	res, err := l.Run(ctx, links.active)
	lost := stop()
	if err == nil {
		err = l.End(ctx)
	}
	if fatal := fatalError(ctx, err); fatal != nil {
		return fatal
	}
	if err != nil {
		return &plainError{o.urls[0].String(), err, a.callCred().UID}
	}
	result := o.newResult(&res)
	result.Lost = lost.Seconds()
	if o.json {
		err = printJSON(a.stdout, result)
	} else {
		err = result.printText(a.stdout)
	}
	if page != nil { // last, because the measurement is valid without a report
		err = errors.Join(err, a.writeReport(ctx, page, o, links, result, res.Bars))
	}
	return err
}

// openBenchTarget connects to the server and finds the object that calls will use. For
// null the object need not exist.
func (a *app) openBenchTarget(ctx context.Context, o *benchOptions) (remote, error) {
	if o.op.Word != "null" {
		return a.openURL(ctx, o.urls[0])
	}
	within, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	s, err := a.openSession(within, o.urls[0].server)
	return remote{location: o.urls[0], session: s}, err
}

// dialBench opens all connections. It also returns the object's path in the form that
// loadgen expects.
func (a *app) dialBench(ctx context.Context, o *benchOptions) (*benchConns, string, error) {
	if minor, ok := nfs4Minors[o.vers.Word]; ok {
		ls, err := a.dialNFS4Conns(ctx, o, minor)
		return ls, o.urls[0].path, err
	}
	r, err := a.openBenchTarget(ctx, o)
	if err != nil {
		return new(benchConns), "", a.suggestNFSv4(err)
	}
	ls, err := a.dialBenchConns(ctx, r, o)
	return ls, r.rest, err
}

// suggestNFSv4 adds a remedy to the error of a server without NFSv3.
func (a *app) suggestNFSv4(err error) error {
	step, ok := errors.AsType[*stepError](err)
	if refused, mismatch := errors.AsType[*oncrpc.ReplyError](err); ok && mismatch && refused.High >= nfs4.Version {
		step.remedy = "measure NFSv4 with --vers 4.2, or " + step.remedy
	}
	return err
}

func (r *benchResult) printText(w io.Writer) error {
	l := &r.Latency
	_, err := fmt.Fprintf(w, `%s: blocks of %s, %d calls in flight on each of %d connections, %.2f s
%.1f MB/s, %.0f calls/s
latency p50 %s, p95 %s, p99 %s, max %s
client CPU %.2f s
`, r.Op, formatSize(int64(r.Block)), r.Depth, r.Connections, r.Seconds, r.MBps, r.IOPS,
		formatMicros(l.P50), formatMicros(l.P95), formatMicros(l.P99), formatMicros(l.Max), r.CPU)
	if err == nil && r.Lost > 0 {
		_, err = fmt.Fprintf(w, "the connection was lost for %s: the figures include that time\n", formatMicros(1e6*r.Lost))
	}
	return err
}
