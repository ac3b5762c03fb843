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

	"github.com/nfsrdma/nfsrdma/internal/buildinfo"
	"github.com/nfsrdma/nfsrdma/internal/loadgen"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// reportPage is the template of the HTML report, with its style. It has no script.
//
//go:embed bench_report.html
var reportPage string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"took": formatMicros, "percent": func(part float64) string { return fmt.Sprintf("%.2f %%", 100*part) },
}).Parse(reportPage))

// A reportDoc is the data that the template shows.
type reportDoc struct {
	*benchResult
	URL      string
	Server   string // name and address
	Client   string
	Version  string // this program's
	At       time.Time
	Asked    []reportRow
	Agreed   []reportRow
	Measured bool // the operation transfers data
	Chart    *latencyChart
}

// A reportRow is a table row.
type reportRow struct{ Name, Value string }

// rowAppender returns a function that appends rows to a table; info prints such rows too.
func rowAppender(to *[]reportRow) func(name, format string, args ...any) {
	return func(name, format string, args ...any) {
		*to = append(*to, reportRow{name, fmt.Sprintf(format, args...)})
	}
}

// writeReport writes the report after the measurement.
func (a *app) writeReport(ctx context.Context, page *reportFile, o *benchOptions, ls *benchConns, r *benchResult, bars []loadgen.Bar) error {
	within, cancel := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer cancel()
	cfg := a.commandConfig()
	cfg.AnyVersion = true
	s, err := a.openSessionWith(within, o.urls[0].server, cfg) // over NFSv3, the measured session
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	d := &reportDoc{
		benchResult: r, URL: o.urls[0].String(), Server: fmt.Sprintf("%s (%s)", s.serverAddr(), s.netConn().RemoteAddr()),
		Client: host, Version: buildinfo.Version(version), At: time.Now(), Measured: r.Bytes > 0,
		Asked: o.requestedRows(a), Agreed: s.negotiatedRows(ls, o.vers.Word), Chart: newLatencyChart(bars, &r.Latency),
	}
	var b bytes.Buffer
	return errors.Join(reportTemplate.Execute(&b, d), page.commit(b.Bytes()))
}

// requestedRows returns the requested settings.
func (o *benchOptions) requestedRows(a *app) (all []reportRow) {
	row := rowAppender(&all)
	row("operation", "%s", o.op.Word)
	row("NFS version", "%s", o.vers.Word)
	row("block", "%d bytes", int64(o.block))
	row("calls in flight", "%d on each connection", o.depth)
	row("connections", "%d, and %d idle ones", o.connections, o.idle)
	row("time", "%v", o.time)
	row("transport", "%s", a.proto.Word)
	if !a.overTCP() {
		row("CRC, markers", "%s, %s", a.crc.Word, a.markers.Word)
		row("inline, credits", "%d bytes, %d", int64(a.inline), a.credits)
	}
	row("security", "%s; TLS: %s", cmp.Or(a.sec.String(), "chosen by the export"), a.xprtsec.Word)
	return all
}

// negotiatedRows returns the settings negotiated with the server.
func (s *session) negotiatedRows(ls *benchConns, vers string) (all []reportRow) {
	row := rowAppender(&all)
	row("NFS version", "%s", vers)
	if first := ls.active[0]; first.Session == nil {
		row("security", "%v", exports.Flavor(first.Client.Flavor()))
	} else {
		row("security", "sys")
		newNFS4Info(first.Session.Server()).printRows(row)
	}
	row("TLS", "%s", s.tlsInfo())
	if s.rdma == nil {
		row("transport", "TCP")
		return all
	}
	(&serverInfo{MPA: s.mpaInfo(), RPC: s.rpcInfo()}).printRDMA(row)
	return all
}
