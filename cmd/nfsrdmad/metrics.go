package main

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A monitor is the HTTP server of --metrics.
type monitor struct {
	server *http.Server
	done   chan struct{}
}

// Limits of the server of --metrics, which anyone who reaches its address may use.
const (
	monitorWrite  = 30 * time.Second // for an answer; net/http/pprof adds the time of a profile
	monitorHeader = 16 << 10         // bytes of a request's header
)

// newMonitor returns a server of h that does not answer yet.
func newMonitor(h http.Handler, log *slog.Logger) *monitor {
	m := &monitor{server: newHTTP(h, log), done: make(chan struct{})}
	m.server.WriteTimeout, m.server.MaxHeaderBytes = monitorWrite, monitorHeader
	m.server.ConnState = newConnBound(maxMonitor, monitorWrite).changed
	return m
}

// serve answers on l until close.
func (m *monitor) serve(l net.Listener) *monitor {
	go func() {
		defer close(m.done)
		_ = m.server.Serve(l) // until close
	}()
	return m
}

// close ends the service. It does nothing if m is nil.
func (m *monitor) close() {
	if m != nil {
		_ = m.server.Close()
		<-m.done
	}
}

// monitor returns the handler of the HTTP server.
func (p *operations) monitor() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{p}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := http.NewServeMux()
	m.HandleFunc("GET /{$}", p.servePage)
	m.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	m.HandleFunc("GET /healthz", p.healthz)
	m.HandleFunc("/debug/pprof/", pprof.Index)
	m.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	m.HandleFunc("/debug/pprof/profile", pprof.Profile)
	m.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	m.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return m
}

// healthz reports whether the daemon takes new clients.
func (p *operations) healthz(w http.ResponseWriter, _ *http.Request) {
	if p.draining.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write([]byte(p.state() + "\n"))
}
