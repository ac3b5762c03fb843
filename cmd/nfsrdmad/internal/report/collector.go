package report

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
)

// A statusCollector exports the daemon's status to Prometheus.
type statusCollector struct{ newSource func() *Source }

// NewCollector returns a Prometheus collector for all the daemon's metrics. Each scrape reads a
// new Source.
func NewCollector(newSource func() *Source) prometheus.Collector { return statusCollector{newSource} }

// Describe lists the metrics (prometheus.Collector).
func (c statusCollector) Describe(out chan<- *prometheus.Desc) {
	out <- durationDesc
	out <- exportDurationDesc
	for i := range metricList {
		out <- metricList[i].desc
	}
}

// Collect reads all values (prometheus.Collector).
func (c statusCollector) Collect(out chan<- prometheus.Metric) {
	src := c.newSource()
	s := &scrapeData{src.CollectStatus(), src.Observer.Stats(), src.Device.Stats()}
	for i := range s.procs {
		p := &s.procs[i]
		prog, proc := ProcNames(p)
		out <- newLatencyHistogram(durationDesc, &p.Took, p.Calls, p.Duration.Seconds(), prog, proc)
	}
	for i := range s.Exports {
		a := s.Exports[i].Activity
		out <- newLatencyHistogram(exportDurationDesc, &a.took, a.Calls, a.Seconds, exportLabel(s.Exports[i].Path))
	}
	for i := range metricList {
		metricList[i].emitTo(s, out)
	}
}

// emitTo sends the metric's values.
func (m *metric) emitTo(s *scrapeData, out chan<- prometheus.Metric) {
	m.emitValues(s, func(value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
	})
}

// newLatencyHistogram returns a histogram of calls' latencies.
func newLatencyHistogram(desc *prometheus.Desc, took *[len(rpcstats.LatencyBounds) + 1]uint64, calls uint64, seconds float64, labels ...string) prometheus.Metric {
	var below uint64
	buckets := make(map[float64]uint64, len(rpcstats.LatencyBounds))
	for i, b := range rpcstats.LatencyBounds {
		below += took[i]
		buckets[b.Seconds()] = below
	}
	return prometheus.MustNewConstHistogram(desc, calls, seconds, buckets, labels...)
}
