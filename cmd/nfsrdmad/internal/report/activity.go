package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
)

// MaxClientsShown bounds the clients in the text of status and on the live page.
const MaxClientsShown = 20

// An Activity counts what was done with an export, or by a client, since the daemon started.
type Activity struct {
	Calls        uint64       `json:"calls"`
	BytesRead    uint64       `json:"bytes_read"` // file data, without headers
	BytesWritten uint64       `json:"bytes_written"`
	Latency      []latencyDoc `json:"latency"`
	Errors       []ErrorCount `json:"errors"`
}

// An ExportActivity counts what was done with an export. An NFSv4 call counts for the last export
// that it used, its operations for the export of their current filehandle.
type ExportActivity struct {
	Activity
	Operations    uint64  `json:"nfs4_operations"`
	Seconds       float64 `json:"seconds"` // sum over all calls
	CallsInFlight int     `json:"calls_in_flight"`

	took [len(rpcstats.LatencyBounds) + 1]uint64
}

// A ClientActivity counts what a client address did, over all its connections.
type ClientActivity struct {
	Address string `json:"address"`
	Activity
	IdleSeconds float64 `json:"idle_seconds"` // since its last call
}

// ClientActivities lists the clients that the daemon counts individually.
type ClientActivities struct {
	List      []ClientActivity `json:"list"`      // those on which the server spent the most time first
	Forgotten int              `json:"forgotten"` // how often one was not counted, or no longer: there were too many
}

func newActivity(s *rpcstats.UsageStats) Activity {
	a := Activity{Calls: s.Calls, BytesRead: s.Read, BytesWritten: s.Written, Latency: newLatencyDocs(&s.Took), Errors: []ErrorCount{}}
	for _, f := range s.Failed {
		a.Errors = append(a.Errors, ErrorCount{plainOutcome(f.Outcome), f.Count})
	}
	return a
}

// plainOutcome names an outcome without the protocol version, because versions share most status
// codes: NOENT, not NFS3ERR_NOENT.
func plainOutcome(o rpcstats.Outcome) string {
	if o.Kind != rpcstats.OutcomeStatus {
		return o.String()
	}
	return strings.TrimPrefix(nfs4.Status(o.Code).String(), "NFS4ERR_")
}

func newLatencyDocs(took *[len(rpcstats.LatencyBounds) + 1]uint64) []latencyDoc {
	list := []latencyDoc{}
	for i, n := range took {
		if n > 0 {
			list = append(list, latencyDoc{latencyBound(i).Seconds(), n})
		}
	}
	return list
}

func newExportActivity(e *exportset.Exported) *ExportActivity {
	s := e.Usage.Stats()
	return &ExportActivity{Activity: newActivity(&s), Operations: s.Operations, Seconds: s.Duration.Seconds(), CallsInFlight: e.Running(), took: s.Took}
}

func (src *Source) collectClientActivity() *ClientActivities {
	clients, forgotten := src.Observer.Clients()
	d := &ClientActivities{List: []ClientActivity{}, Forgotten: forgotten}
	for i := range clients {
		c := &clients[i]
		d.List = append(d.List, ClientActivity{c.Addr.String(), newActivity(&c.UsageStats), c.Idle.Seconds()})
	}
	return d
}

// errorWords lists the errors in a line of text.
func (a *Activity) errorWords() string {
	var words []string
	for _, e := range a.Errors {
		words = append(words, fmt.Sprintf("%s %d", e.Name, e.Calls))
	}
	return strings.Join(words, ", ")
}

// percentileBound returns the upper bound of the latency class that contains the given percentile
// of calls, or "-" without calls.
func (a *Activity) percentileBound(percent uint64) string {
	if a.Calls == 0 {
		return "-"
	}
	return percentileBound(a.Latency, a.Calls, percent)
}

// meanDuration returns the mean duration of a call that uses the export, or "-" without calls.
func (a *ExportActivity) meanDuration() string {
	if a.Calls == 0 {
		return "-"
	}
	return formatDuration(time.Duration(a.Seconds * float64(time.Second) / float64(a.Calls)))
}

// describe returns the available space of all, and that it is not current.
func (s *Space) describe() string {
	switch {
	case s == nil:
		return "-"
	case s.Responds:
		return formatSize(s.AvailableBytes) + " of " + formatSize(s.Bytes)
	case s.Bytes > 0:
		return "DOES NOT RESPOND, last " + formatSize(s.AvailableBytes) + " of " + formatSize(s.Bytes)
	}
	return "DOES NOT RESPOND"
}

// describeFiles returns the available inodes of all, or "-" if they are unknown or unlimited.
func (s *Space) describeFiles() string {
	if s == nil || s.Files == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", s.AvailableFiles, s.Files)
}

// usedShare returns the used share of the bytes or inodes, whichever is larger, from 0 to 1.
func (s *Space) usedShare() float64 {
	share := func(available, all uint64) float64 {
		if all == 0 {
			return 0
		}
		return 1 - float64(min(available, all))/float64(all)
	}
	return max(share(s.AvailableBytes, s.Bytes), share(s.AvailableFiles, s.Files))
}

// addActivity adds the tables of what exports and clients do, unless the daemon is an older one
// that does not count it.
func (p *textPage) addActivity(d *Status) {
	c := d.ClientActivity
	if c == nil {
		return
	}
	p.startTable("ACTIVITY BY EXPORT")
	p.addRow("EXPORT", "CALLS", "NOW", "READ", "WRITTEN", "MEAN", "99 % BELOW", "AVAILABLE", "INODES", "ERRORS")
	for i := range d.Exports {
		e := &d.Exports[i]
		a := e.Activity
		if a == nil {
			continue
		}
		p.addRow(quoteUnprintable(e.Path), a.Calls, a.CallsInFlight, formatSize(a.BytesRead), formatSize(a.BytesWritten), a.meanDuration(), a.percentileBound(99),
			e.Space.describe(), e.Space.describeFiles(), a.errorWords())
	}
	p.startTable("ACTIVITY BY CLIENT")
	if len(c.List) == 0 {
		p.addRow("none yet")
		return
	}
	p.addRow("CLIENT", "CALLS", "READ", "WRITTEN", "50 % BELOW", "99 % BELOW", "IDLE", "ERRORS")
	for i := range c.First() {
		a := &c.List[i]
		p.addRow(a.Address, a.Calls, formatSize(a.BytesRead), formatSize(a.BytesWritten), a.percentileBound(50), a.percentileBound(99), formatSpan(time.Duration(a.IdleSeconds*float64(time.Second))), a.errorWords())
	}
	if rest := c.More(); rest > 0 {
		p.addRow(fmt.Sprintf("and %d more", rest))
	}
}

// First returns the clients that text and the live page show.
func (c *ClientActivities) First() []ClientActivity {
	return c.List[:min(len(c.List), MaxClientsShown)]
}

// More counts the clients that First omits.
func (c *ClientActivities) More() int { return len(c.List) - len(c.First()) }

// exportLabel returns an export's value of a metric's label, which must be UTF-8.
func exportLabel(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	return strconv.Quote(path)
}

// exportMetric returns a metric with a value for each export. each may emit none, or several with
// another label.
func exportMetric(kind func(string, string, []string, func(*scrapeData, emitFunc)) metric, name, help string, value func(*Export) float64) metric {
	return kind(name, help, []string{"export"}, func(s *scrapeData, emit emitFunc) {
		for i := range s.Exports {
			emit(value(&s.Exports[i]), exportLabel(s.Exports[i].Path))
		}
	})
}

// spaceMetric returns a metric with a value for each export whose space is known.
func spaceMetric(name, help string, value func(*Space) uint64) metric {
	return newGauge(name, help, []string{"export"}, func(s *scrapeData, emit emitFunc) {
		for i := range s.Exports {
			if space := s.Exports[i].Space; space != nil && (space.Responds || space.Bytes > 0) {
				emit(float64(value(space)), exportLabel(s.Exports[i].Path))
			}
		}
	})
}

// activityMetrics are the metrics by export. Clients have none: they could be any number.
var activityMetrics = []metric{
	exportMetric(newCounter, "export_read_bytes_total", "Bytes of file data read from an export.", func(e *Export) float64 { return float64(e.Activity.BytesRead) }),
	exportMetric(newCounter, "export_written_bytes_total", "Bytes of file data written to an export.", func(e *Export) float64 { return float64(e.Activity.BytesWritten) }),
	exportMetric(newCounter, "export_nfs4_operations_total", "NFSv4 operations whose current filehandle was in an export.", func(e *Export) float64 { return float64(e.Activity.Operations) }),
	exportMetric(newGauge, "export_calls_in_flight", "Calls that use an export at present.", func(e *Export) float64 { return float64(e.Activity.CallsInFlight) }),
	newCounter("export_errors_total", "Failed calls that used an export, by the NFS status without its version, or the RPC error.", []string{"export", "error"}, func(s *scrapeData, emit emitFunc) {
		for i := range s.Exports {
			for _, e := range s.Exports[i].Activity.Errors {
				emit(float64(e.Calls), exportLabel(s.Exports[i].Path), e.Name)
			}
		}
	}),
	newGauge("export_responds", "1, or 0 if an export's file system has not told its free space in time.", []string{"export"}, func(s *scrapeData, emit emitFunc) {
		for i := range s.Exports {
			if space := s.Exports[i].Space; space != nil {
				emit(oneIf(space.Responds), exportLabel(s.Exports[i].Path))
			}
		}
	}),
	spaceMetric("export_size_bytes", "Size of an export's file system.", func(s *Space) uint64 { return s.Bytes }),
	spaceMetric("export_available_bytes", "Free space for users in an export's file system.", func(s *Space) uint64 { return s.AvailableBytes }),
	spaceMetric("export_inodes", "Inodes of an export's file system, or 0 if it has no limit.", func(s *Space) uint64 { return s.Files }),
	spaceMetric("export_available_inodes", "Free inodes of an export's file system.", func(s *Space) uint64 { return s.AvailableFiles }),
}
