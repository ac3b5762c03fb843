package report

import (
	"fmt"
	"html"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Standby describes a host of serve --standby, which waits, or serves until its tenure ends.
type Standby struct {
	Waiting bool    `json:"waiting"`
	Text    string  `json:"text"`            // what it waits for, or until when it serves
	Phase   string  `json:"phase,omitempty"` // watching, fencing, locking or claiming while it waits
	Host    string  `json:"host,omitempty"`  // the host whose beat was read last, while it waits
	Seen    float64 `json:"seen_seconds"`    // since that beat changed, or since the own last beat that succeeded was sent
	Left    float64 `json:"tenure_seconds"`  // until the tenure ends, while it serves
	Fence   string  `json:"fence"`           // how the host that served before is kept from writing
}

// waitingState is the state of a daemon that waits.
const waitingState = "standby"

// NewWaitingStatus returns the status of a daemon that waits, which serves nothing yet.
func NewWaitingStatus(program string, s *Standby) *Status {
	return &Status{
		Version: SchemaVersion, Standby: s,
		Daemon:     daemonDoc{Version: program, PID: os.Getpid(), UID: os.Geteuid(), State: waitingState},
		Transports: []Transport{}, Connections: []Connection{}, Exports: []Export{}, Procedures: []procDoc{}, Operations: []operationDoc{},
	}
}

// NewWaitingHandler returns the handler for --metrics while the daemon waits. /healthz fails: the
// daemon serves no client.
func NewWaitingHandler(program string, newStandby func() *Standby) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(waitingCollector(func() *Status { return NewWaitingStatus(program, newStandby()) }))
	m := http.NewServeMux()
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"2\"><title>nfsrdmad</title><p>%s</p></html>\n", html.EscapeString(newStandby().Text))
	})
	m.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, newStandby().Text)
	})
	return rejectRebinding(m)
}

// standbyMetrics are the metrics of a daemon with --standby. Others do not have them.
var standbyMetrics = []metric{
	newGauge("standby_waiting", "1 while the daemon waits until it may serve (--standby), and 0 while it serves.", noLabels, func(s *scrapeData, emit emitFunc) {
		if s.Standby != nil {
			emit(oneIf(s.Standby.Waiting))
		}
	}),
	newGauge("tenure_seconds", "Time until the daemon stops serving unless it can extend its tenure (--standby).", noLabels, func(s *scrapeData, emit emitFunc) {
		if s.Standby != nil && !s.Standby.Waiting {
			emit(s.Standby.Left)
		}
	}),
}

// A waitingCollector exports the metrics of a daemon that waits.
type waitingCollector func() *Status

// Describe lists the metrics (prometheus.Collector).
func (c waitingCollector) Describe(out chan<- *prometheus.Desc) {
	for i := range standbyMetrics {
		out <- standbyMetrics[i].desc
	}
}

// Collect reads all values (prometheus.Collector).
func (c waitingCollector) Collect(out chan<- prometheus.Metric) {
	s := &scrapeData{Status: c()}
	for i := range standbyMetrics {
		standbyMetrics[i].emitTo(s, out)
	}
}
