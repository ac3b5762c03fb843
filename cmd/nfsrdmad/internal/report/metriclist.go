package report

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
	"github.com/prometheus/client_golang/prometheus"
)

// scrapeData is the data for one scrape.
type scrapeData struct {
	*Status
	procs  []rpcstats.ProcStats
	device iwarp.Statistics
}

// A metric is one exported metric with a function for its values. No label contains anything
// that a client can choose, which bounds their number. docs/operations.md lists all metrics.
type metric struct {
	desc       *prometheus.Desc
	kind       prometheus.ValueType
	emitValues func(s *scrapeData, emit emitFunc)
}

// An emitFunc receives a value with the value of each label.
type emitFunc func(value float64, labels ...string)

func newCounter(name, help string, labels []string, each func(*scrapeData, emitFunc)) metric {
	return metric{prometheus.NewDesc("nfsrdma_"+name, help, labels, nil), prometheus.CounterValue, each}
}

func newGauge(name, help string, labels []string, each func(*scrapeData, emitFunc)) metric {
	return metric{prometheus.NewDesc("nfsrdma_"+name, help, labels, nil), prometheus.GaugeValue, each}
}

var (
	noLabels    []string
	byTransport = []string{"transport"}
	byMemory    = []string{"transport", "use"}
	byProc      = []string{"program", "procedure"}
	byCause     = []string{"layer", "type", "code"}
	byDirection = []string{"direction"}
)

// The histograms' descriptions. Their buckets are rpcstats.LatencyBounds.
var (
	durationDesc = prometheus.NewDesc("nfsrdma_rpc_duration_seconds",
		"Duration of calls, from arrival to the complete reply.", byProc, nil)
	exportDurationDesc = prometheus.NewDesc("nfsrdma_export_duration_seconds",
		"Duration of calls that use an export, likewise.", []string{"export"}, nil)
)

var metricList = append([]metric{
	newGauge("build_info", "1, with the version of the daemon.", []string{"version"}, func(s *scrapeData, emit emitFunc) {
		emit(1, s.Daemon.Version)
	}),
	newGauge("start_time_seconds", "When the daemon started to serve, in seconds since 1970.", noLabels, func(s *scrapeData, emit emitFunc) {
		emit(float64(s.Daemon.Since.UnixNano()) / 1e9)
	}),
	newGauge("last_reload_success", "1, or 0 if the last reload, or the start, had errors.", noLabels, func(s *scrapeData, emit emitFunc) {
		emit(oneIf(s.Reload.Success))
	}),
	newGauge("last_reload_success_timestamp_seconds", "When the last reload, or the start, had no error, in seconds since 1970.", noLabels, func(s *scrapeData, emit emitFunc) {
		emit(float64(s.Reload.LastSuccess.UnixNano()) / 1e9)
	}),
	newGauge("draining", "1 while the daemon completes its calls before it exits.", noLabels, func(s *scrapeData, emit emitFunc) {
		emit(oneIf(s.Daemon.State == "draining"))
	}),
	newGauge("exports", "Exports.", noLabels, func(s *scrapeData, emit emitFunc) { emit(float64(len(s.Exports))) }),
	newGauge("export_available", "1, or 0 while an export cannot be served and its clients wait.", []string{"export"}, func(s *scrapeData, emit emitFunc) {
		for i := range s.Exports {
			emit(oneIf(s.Exports[i].Unavailable == ""), exportLabel(s.Exports[i].Path))
		}
	}),

	newCounter("rpc_received_bytes_total", "Bytes of calls, data included.", byProc, func(s *scrapeData, emit emitFunc) {
		for i := range s.procs {
			prog, proc := ProcNames(&s.procs[i])
			emit(float64(s.procs[i].In), prog, proc)
		}
	}),
	newCounter("rpc_sent_bytes_total", "Bytes of replies, data included.", byProc, func(s *scrapeData, emit emitFunc) {
		for i := range s.procs {
			prog, proc := ProcNames(&s.procs[i])
			emit(float64(s.procs[i].Out), prog, proc)
		}
	}),
	newCounter("rpc_errors_total", "Failed calls, by the NFS or MOUNT status, or the RPC error.",
		[]string{"program", "procedure", "error"}, func(s *scrapeData, emit emitFunc) {
			for i := range s.procs {
				prog, proc := ProcNames(&s.procs[i])
				for _, f := range s.procs[i].Failed {
					emit(float64(f.Count), prog, proc, outcomeName(&s.procs[i], f.Outcome))
				}
			}
		}),

	newCounter("nfs4_operations_total", "Executed NFSv4 operations.", []string{"operation"}, func(s *scrapeData, emit emitFunc) {
		for _, o := range s.Operations {
			emit(float64(o.Count), o.Operation)
		}
	}),
	newCounter("nfs4_operation_errors_total", "Failed NFSv4 operations, by status.", []string{"operation", "error"}, func(s *scrapeData, emit emitFunc) {
		for _, o := range s.Operations {
			for _, e := range o.Errors {
				emit(float64(e.Count), o.Operation, e.Name)
			}
		}
	}),

	nfs4Metric("nfs4_clients", "NFSv4 client records.", func(d *nfs4Doc) int64 { return int64(d.Clients) }),
	nfs4Metric("nfs4_sessions", "NFSv4 sessions.", func(d *nfs4Doc) int64 { return int64(d.Sessions) }),
	nfs4Metric("nfs4_opens", "Opens by NFSv4 clients.", func(d *nfs4Doc) int64 { return int64(d.Opens) }),
	nfs4Metric("nfs4_locks", "Byte ranges locked by NFSv4 clients.", func(d *nfs4Doc) int64 { return int64(d.Locks) }),
	nfs4Metric("nfs4_delegations", "NFSv4 delegations: files that clients open and read without calls.", func(d *nfs4Doc) int64 { return int64(d.Delegations) }),
	nfs4Metric("nfs4_write_delegations", "NFSv4 write delegations among these: files that clients also write without calls.", func(d *nfs4Doc) int64 { return int64(d.Writes) }),
	newCounter("nfs4_delegations_total", "NFSv4 delegations since the start: granted, recalled, and revoked.", []string{"event"}, func(s *scrapeData, emit emitFunc) {
		if d := s.NFS4; d != nil {
			emit(float64(d.Granted), "granted")
			emit(float64(d.Recalled), "recalled")
			emit(float64(d.Revoked), "revoked")
		}
	}),
	nfs4Metric("nfs4_recorded", "NFSv4 clients that can reclaim their state after a restart.", func(d *nfs4Doc) int64 { return int64(d.Recorded) }),
	nfs4Metric("nfs4_grace_clients", "NFSv4 clients that may still reclaim their state after the last restart.", func(d *nfs4Doc) int64 { return int64(d.Grace) }),
	nfs4Metric("nfs4_recording_fails", "1 if NFSv4 clients cannot open or lock files, because the list of these clients cannot be written.", func(d *nfs4Doc) int64 {
		if d.Failing {
			return 1
		}
		return 0
	}),
	nfs4Metric("nfs4_reply_bytes", "Bytes of replies that the slots of all sessions can cache.", func(d *nfs4Doc) int64 { return d.ReplyBytes }),

	transportMetric(newGauge, "connections", "Current connections.", func(t *Transport) float64 { return float64(t.Connections.Now) }),
	transportMetric(newCounter, "connections_accepted_total", "Accepted connections.", func(t *Transport) float64 { return float64(t.Connections.Total) }),
	transportMetric(newCounter, "connections_refused_total", "Connections rejected because the limit was reached.", func(t *Transport) float64 { return float64(t.Connections.Refused) }),
	transportMetric(newCounter, "connections_replaced_total", "Connections closed in favor of one from another host, or of a newer one from the same host.", func(t *Transport) float64 { return float64(t.Connections.Replaced) }),
	transportMetric(newCounter, "connections_stalled_total", "Connections closed because they made no progress while they held memory that others waited for.", func(t *Transport) float64 { return float64(t.Connections.Stalled) }),
	transportMetric(newGauge, "waiting_calls", "Calls that wait for memory.", func(t *Transport) float64 { return float64(t.WaitingCalls) }),
	newGauge("calls_under_way", "Calls in flight.", byTransport, func(s *scrapeData, emit emitFunc) {
		sum := make(map[string]int)
		for i := range s.Connections {
			sum[s.Connections[i].Transport] += s.Connections[i].CallsUnderWay
		}
		for i := range s.Transports {
			emit(float64(sum[s.Transports[i].Name]), s.Transports[i].Name)
		}
	}),
	memoryMetric("memory_bytes", "Bytes of memory in use.", func(m *memoryDoc) int64 { return m.InUse }),
	memoryMetric("memory_limit_bytes", "Maximum number of bytes of memory in use.", func(m *memoryDoc) int64 { return m.Limit }),

	newCounter("rdma_refused_calls_total", "Calls that RPC-over-RDMA could not serve, by the code of the RDMA_ERROR sent, or none.",
		[]string{"code"}, func(s *scrapeData, emit emitFunc) {
			r := s.Transports[0].RDMA
			emit(float64(r.ErrVers), "ERR_VERS")
			emit(float64(r.ErrChunk), "ERR_CHUNK")
			emit(float64(r.Dropped), "none")
		}),
	terminateMetric("terminates_sent_total", "Terminate messages sent, by their error (RFC 5040, Section 4.8).",
		func(r *deviceDoc) []terminateDoc { return r.TerminatesSent }),
	terminateMetric("terminates_received_total", "Terminate messages received.",
		func(r *deviceDoc) []terminateDoc { return r.TerminatesReceived }),
	directionMetric("fpdus_total", "MPA FPDUs.", func(c *iwarp.Counts) uint64 { return c.FPDUs }),
	directionMetric("rdmap_bytes_total", "Bytes after DDP headers.", func(c *iwarp.Counts) uint64 { return c.Bytes }),
	newCounter("rdmap_messages_total", "RDMAP messages, by operation.", []string{"direction", "operation"}, func(s *scrapeData, emit emitFunc) {
		for op := range rdmap.Opcodes {
			name := rdmap.Opcode(op).String()
			emit(float64(s.device.Sent.Messages[op]), "sent", name)
			emit(float64(s.device.Received.Messages[op]), "received", name)
		}
	}),
	newGauge("regions", "Registered memory regions.", noLabels, func(s *scrapeData, emit emitFunc) { emit(float64(s.device.Regions)) }),
	newGauge("region_bytes", "Bytes in registered memory regions.", noLabels, func(s *scrapeData, emit emitFunc) { emit(float64(s.device.RegionBytes)) }),

	newGauge("replay_replies", "Replies cached for retransmitted calls.", noLabels, func(s *scrapeData, emit emitFunc) { emit(float64(s.ReplayCache.Replies)) }),
	newGauge("replay_bytes", "Bytes of cached replies.", noLabels, func(s *scrapeData, emit emitFunc) { emit(float64(s.ReplayCache.Bytes)) }),
	newCounter("replay_executed_total", "Executed calls that must not be executed twice.", noLabels, func(s *scrapeData, emit emitFunc) { emit(float64(s.ReplayCache.Executed)) }),
	newCounter("replay_answered_total", "Retransmissions of such calls that got the first reply.", noLabels, func(s *scrapeData, emit emitFunc) {
		emit(float64(s.ReplayCache.Replayed + s.ReplayCache.Joined))
	}),
	newGauge("grants", "Delegations in force with delegation counters.", noLabels, func(s *scrapeData, emit emitFunc) {
		if s.Grants != nil {
			emit(float64(s.Grants.InForce))
		}
	}),
	newGauge("grants_of_largest_party", "Grants in force of the address that has the most.", noLabels, func(s *scrapeData, emit emitFunc) {
		if s.Grants != nil {
			_, n := s.Grants.largestHolder()
			emit(float64(n))
		}
	}),
	newCounter("grant_refusals_total", "Refused ACQUIREs.", []string{"reason"}, func(s *scrapeData, emit emitFunc) {
		if s.Grants != nil {
			for why := delegation.ReasonContended; why <= delegation.ReasonOver; why++ {
				emit(float64(s.Grants.RefusedBy[why.String()]), why.String())
			}
		}
	}),
	newGauge("grant_wait_seconds", "Time for which changes must still wait, because clients may hold delegations from before the restart.", noLabels, func(s *scrapeData, emit emitFunc) {
		if s.Grants != nil {
			emit(s.Grants.WaitSeconds)
		}
	}),
	newCounter("grant_events_total", "Outcomes of delegation requests and delegations with delegation counters.", []string{"event"}, func(s *scrapeData, emit emitFunc) {
		if s.Grants != nil {
			s.Grants.emitEvents(emit)
		}
	}),
	newCounter("discover_requests_total", "Discovery requests over RoCE, by outcome.", []string{"outcome"}, func(s *scrapeData, emit emitFunc) {
		if d := s.Discovery; d != nil {
			emit(float64(d.Queries+d.Registered+d.Watched), "answered")
			emit(float64(d.Refused), "refused")
			emit(float64(d.Dropped), "dropped")
		}
	}),
	discoveryMetric(newCounter, "discover_notices_total", "Restart notices sent to clients.", func(d *Discovery) uint64 { return d.Notices }),
	discoveryMetric(newCounter, "discover_updates_total", "Counter updates sent to monitors.", func(d *Discovery) uint64 { return d.Updates }),
	discoveryMetric(newGauge, "discover_clients", "Clients registered for restart notices.", func(d *Discovery) uint64 { return uint64(d.Clients) }),
	discoveryMetric(newGauge, "discover_monitors", "Monitors that receive counter updates.", func(d *Discovery) uint64 { return uint64(d.Monitors) }),
	newCounter("trace_spans_total", "Spans of --trace, by outcome.", []string{"outcome"}, func(s *scrapeData, emit emitFunc) {
		if t := s.Trace; t != nil {
			emit(float64(t.Sent), "sent")
			emit(float64(t.Dropped), "dropped")
			emit(float64(t.Failed), "failed")
		}
	}),
	newCounter("replay_forgotten_total", "Cached replies evicted early.", noLabels, func(s *scrapeData, emit emitFunc) { emit(float64(s.ReplayCache.Forgotten)) }),
}, slices.Concat(activityMetrics, kerberosMetrics, tlsMetrics, standbyMetrics)...)

func nfs4Metric(name, help string, value func(*nfs4Doc) int64) metric {
	return newGauge(name, help, noLabels, func(s *scrapeData, emit emitFunc) {
		if s.NFS4 != nil {
			emit(float64(value(s.NFS4)))
		}
	})
}

func discoveryMetric(kind func(string, string, []string, func(*scrapeData, emitFunc)) metric, name, help string, value func(*Discovery) uint64) metric {
	return kind(name, help, noLabels, func(s *scrapeData, emit emitFunc) {
		if s.Discovery != nil {
			emit(float64(value(s.Discovery)))
		}
	})
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func transportMetric(kind func(string, string, []string, func(*scrapeData, emitFunc)) metric, name, help string, value func(*Transport) float64) metric {
	return kind(name, help, byTransport, func(s *scrapeData, emit emitFunc) {
		for i := range s.Transports {
			emit(value(&s.Transports[i]), s.Transports[i].Name)
		}
	})
}

func memoryMetric(name, help string, value func(*memoryDoc) int64) metric {
	return newGauge(name, help, byMemory, func(s *scrapeData, emit emitFunc) {
		for i := range s.Transports {
			for j := range s.Transports[i].Memory {
				m := &s.Transports[i].Memory[j]
				emit(float64(value(m)), s.Transports[i].Name, m.Name)
			}
		}
	})
}

func terminateMetric(name, help string, all func(*deviceDoc) []terminateDoc) metric {
	return newCounter(name, help, byCause, func(s *scrapeData, emit emitFunc) {
		for _, t := range all(s.Transports[0].RDMA) {
			emit(float64(t.Count), strconv.Itoa(int(t.Layer)), strconv.Itoa(int(t.Type)), fmt.Sprintf("%#02x", t.Code))
		}
	})
}

func directionMetric(name, help string, value func(*iwarp.Counts) uint64) metric {
	return newCounter(name, help, byDirection, func(s *scrapeData, emit emitFunc) {
		emit(float64(value(&s.device.Sent)), "sent")
		emit(float64(value(&s.device.Received)), "received")
	})
}
