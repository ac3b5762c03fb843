package report

import (
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Server is the HTTP server for --metrics.
type Server struct {
	server *http.Server
	done   chan struct{}
}

// Limits for a Server, which anyone who reaches its address may use.
const (
	metricsWriteTimeout = 30 * time.Second // for a response
	maxMetricsHeader    = 16 << 10         // bytes in a request header
)

// NewServer returns a Server that uses s, and limits s. The caller must start it with
// Start.
func NewServer(s *http.Server) *Server {
	m := &Server{server: s, done: make(chan struct{})}
	m.server.WriteTimeout, m.server.MaxHeaderBytes = metricsWriteTimeout, maxMetricsHeader
	m.server.ConnState = newConnLimiter(maxMetricsConns).onConnState
	return m
}

// Start serves on l until Close.
func (m *Server) Start(l net.Listener) *Server {
	go func() {
		defer close(m.done)
		_ = m.server.Serve(l) // until Close
	}()
	return m
}

// Close stops serving. It does nothing if m is nil.
func (m *Server) Close() {
	if m != nil {
		_ = m.server.Close()
		<-m.done
	}
}

// NewHandler returns the handler for --metrics. Each request reads a new Source.
func NewHandler(newSource func() *Source) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(NewCollector(newSource), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := http.NewServeMux()
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { newSource().servePage(w, r) })
	m.HandleFunc("GET /history", func(w http.ResponseWriter, _ *http.Request) { newSource().serveHistory(w) })
	m.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { newSource().serveHealth(w) })
	return rejectRebinding(m)
}

// serveHealth reports whether the daemon accepts new clients.
func (src *Source) serveHealth(w http.ResponseWriter) {
	if src.Draining {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write([]byte(src.stateWord() + "\n"))
}
