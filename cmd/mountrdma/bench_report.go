package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/loadgen"
)

// reportPage is the page of --report, with its style. It has no script.
//
//go:embed bench_report.html
var reportPage string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"took": took, "percent": func(part float64) string { return fmt.Sprintf("%.2f %%", 100*part) },
}).Parse(reportPage))

// A reportDoc is what the page shows.
type reportDoc struct {
	*benchResult
	URL      string
	Server   string // name and address
	Client   string
	Version  string // of this program
	At       time.Time
	Asked    []fact
	Agreed   []fact
	Measured bool // data are moved
	Chart    *chart
}

// A fact is a row of a table.
type fact struct{ Name, Value string }

// facts returns a function that adds rows to a table, as info prints them.
func facts(to *[]fact) func(name, format string, args ...any) {
	return func(name, format string, args ...any) {
		*to = append(*to, fact{name, fmt.Sprintf(format, args...)})
	}
}

// writeReport writes the page of a measurement that has ended.
func (a *app) writeReport(ctx context.Context, page *reportFile, o *benchOptions, ls *links, r *benchResult, bars []loadgen.Bar) error {
	within, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	cfg := a.brief()
	cfg.AnyVersion = true
	s, err := a.sessionBy(within, o.urls[0].server, cfg) // by version 3 the session that was measured
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	d := &reportDoc{
		benchResult: r, URL: o.urls[0].String(), Server: fmt.Sprintf("%s (%s)", s.at.addr(), s.netConn().RemoteAddr()),
		Client: host, Version: cli.VersionString(version), At: time.Now(), Measured: r.Bytes > 0,
		Asked: o.asked(a), Agreed: s.agreed(ls, o.vers.Word), Chart: newChart(bars, &r.Latency),
	}
	var b bytes.Buffer
	return errors.Join(reportTemplate.Execute(&b, d), page.finish(b.Bytes()))
}

// asked returns the settings of the measurement.
func (o *benchOptions) asked(a *app) (all []fact) {
	row := facts(&all)
	row("operation", "%s", o.op.Word)
	row("NFS version", "%s", o.vers.Word)
	row("block", "%d bytes", int64(o.block))
	row("calls under way", "%d on each connection", o.depth)
	row("connections", "%d, and %d idle ones", o.connections, o.idle)
	row("time", "%v", o.time)
	row("transport", "%s", a.proto.Word)
	if !a.overTCP() {
		row("CRC, markers", "%s, %s", a.crc.Word, a.markers.Word)
		row("inline, credits", "%d bytes, %d", int64(a.inline), a.credits)
	}
	row("security", "%s; TLS: %s", cmp.Or(a.sec.String(), "by the export"), a.xprtsec.Word)
	return all
}

// agreed returns what was agreed with the server.
func (s *session) agreed(ls *links, vers string) (all []fact) {
	row := facts(&all)
	row("NFS version", "%s", vers)
	if first := ls.busy[0]; first.Session == nil {
		row("security", "%v", exports.Flavor(first.Client.Flavor()))
	} else {
		row("security", "sys")
		newNFS4Info(first.Session.Server()).print(row)
	}
	row("TLS", "%s", s.tlsInfo())
	if s.rdma == nil {
		row("transport", "TCP")
		return all
	}
	(&info{MPA: s.mpaInfo(), RPC: s.rpcInfo()}).printRDMA(row)
	return all
}
