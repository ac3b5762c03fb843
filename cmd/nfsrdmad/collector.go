package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
)

// A collector exports the facts of status to Prometheus.
type collector struct{ *operations }

// Describe lists the metrics (prometheus.Collector).
func (c collector) Describe(out chan<- *prometheus.Desc) {
	out <- duration
	for i := range metricList {
		out <- metricList[i].desc
	}
}

// Collect reads all values (prometheus.Collector).
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := &sight{c.status(), c.observer.Stats(), c.device.Stats()}
	for i := range s.procs {
		out <- histogram(&s.procs[i])
	}
	for i := range metricList {
		m := &metricList[i]
		m.each(s, func(value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
		})
	}
}

// histogram returns the latencies of a procedure's calls.
func histogram(s *rpcstats.ProcStats) prometheus.Metric {
	var below uint64
	buckets := make(map[float64]uint64, len(rpcstats.LatencyBounds))
	for i, b := range rpcstats.LatencyBounds {
		below += s.Took[i]
		buckets[b.Seconds()] = below
	}
	prog, proc := names(s)
	return prometheus.MustNewConstHistogram(duration, s.Calls, s.Duration.Seconds(), buckets, prog, proc)
}
