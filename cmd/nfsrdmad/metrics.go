package main

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A monitor is the HTTP server of --metrics.
type monitor struct {
	server *http.Server
	done   chan struct{}
}

// openMonitor answers on l until close.
func openMonitor(l net.Listener, p *operations, log *slog.Logger) *monitor {
	m := &monitor{server: newHTTP(p.monitor(), log), done: make(chan struct{})}
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
