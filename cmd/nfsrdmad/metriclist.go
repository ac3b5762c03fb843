package main

import (
	"fmt"
	"strconv"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
	"github.com/prometheus/client_golang/prometheus"
)

// A sight is the data of one scrape.
type sight struct {
	*statusDoc
	procs  []rpcstats.ProcStats
	device iwarp.Statistics
}

// A metric is one exported name with a function for its values. No label
// contains anything that a client can choose, which bounds their number.
// docs/operations.md lists all metrics.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	each func(s *sight, emit emitter)
}

// An emitter takes a value with one word for each label.
type emitter func(value float64, labels ...string)

func counter(name, help string, labels []string, each func(*sight, emitter)) metric {
	return metric{prometheus.NewDesc("nfsrdma_"+name, help, labels, nil), prometheus.CounterValue, each}
}

func gauge(name, help string, labels []string, each func(*sight, emitter)) metric {
	return metric{prometheus.NewDesc("nfsrdma_"+name, help, labels, nil), prometheus.GaugeValue, each}
}

var (
	none        []string
	byTransport = []string{"transport"}
	byMemory    = []string{"transport", "use"}
	byProc      = []string{"program", "procedure"}
	byCause     = []string{"layer", "type", "code"}
	byDirection = []string{"direction"}
)

// duration is the only histogram; its buckets are rpcstats.LatencyBounds.
var duration = prometheus.NewDesc("nfsrdma_rpc_duration_seconds",
	"Duration of calls, from their arrival to the complete reply.", byProc, nil)

var metricList = append([]metric{
	gauge("build_info", "1, with the version of the daemon.", []string{"version"}, func(s *sight, emit emitter) {
		emit(1, s.Daemon.Version)
	}),
	gauge("start_time_seconds", "When the daemon began to serve, in seconds since 1970.", none, func(s *sight, emit emitter) {
		emit(float64(s.Daemon.Since.UnixNano()) / 1e9)
	}),
	gauge("draining", "1 while the daemon finishes its calls before it ends.", none, func(s *sight, emit emitter) {
		emit(oneIf(s.Daemon.State == "draining"))
	}),
	gauge("exports", "Exports.", none, func(s *sight, emit emitter) { emit(float64(len(s.Exports))) }),

	counter("rpc_received_bytes_total", "Bytes of calls, data included.", byProc, func(s *sight, emit emitter) {
		for i := range s.procs {
			prog, proc := names(&s.procs[i])
			emit(float64(s.procs[i].In), prog, proc)
		}
	}),
	counter("rpc_sent_bytes_total", "Bytes of replies, data included.", byProc, func(s *sight, emit emitter) {
		for i := range s.procs {
			prog, proc := names(&s.procs[i])
			emit(float64(s.procs[i].Out), prog, proc)
		}
	}),
	counter("rpc_errors_total", "Calls that failed, by the status of NFS or MOUNT, or the reason of RPC.",
		[]string{"program", "procedure", "error"}, func(s *sight, emit emitter) {
			for i := range s.procs {
				prog, proc := names(&s.procs[i])
				for _, f := range s.procs[i].Failed {
					emit(float64(f.Count), prog, proc, outcomeName(&s.procs[i], f.Outcome))
				}
			}
		}),

	counter("nfs4_operations_total", "Operations of version 4 that were executed.", []string{"operation"}, func(s *sight, emit emitter) {
		for _, o := range s.Operations {
			emit(float64(o.Count), o.Operation)
		}
	}),
	counter("nfs4_operation_errors_total", "Operations of version 4 that failed, by status.", []string{"operation", "error"}, func(s *sight, emit emitter) {
		for _, o := range s.Operations {
			for _, e := range o.Errors {
				emit(float64(e.Count), o.Operation, e.Name)
			}
		}
	}),

	perNFS4("nfs4_clients", "Client records of version 4.", func(d *nfs4Doc) int64 { return int64(d.Clients) }),
	perNFS4("nfs4_sessions", "Sessions of version 4.", func(d *nfs4Doc) int64 { return int64(d.Sessions) }),
	perNFS4("nfs4_opens", "Opens by clients of version 4.", func(d *nfs4Doc) int64 { return int64(d.Opens) }),
	perNFS4("nfs4_locks", "Byte ranges locked by clients of version 4.", func(d *nfs4Doc) int64 { return int64(d.Locks) }),
	perNFS4("nfs4_delegations", "Files that clients of version 4 open and read without calls.", func(d *nfs4Doc) int64 { return int64(d.Delegations) }),
	perNFS4("nfs4_write_delegations", "Of these, files that clients write without calls too.", func(d *nfs4Doc) int64 { return int64(d.Writes) }),
	counter("nfs4_delegations_total", "Delegations of version 4 so far: granted, of these recalled, and of these revoked.", []string{"event"}, func(s *sight, emit emitter) {
		if d := s.NFS4; d != nil {
			emit(float64(d.Granted), "granted")
			emit(float64(d.Recalled), "recalled")
			emit(float64(d.Revoked), "revoked")
		}
	}),
	perNFS4("nfs4_recorded", "Clients of version 4 that can reclaim their state after a restart.", func(d *nfs4Doc) int64 { return int64(d.Recorded) }),
	perNFS4("nfs4_grace_clients", "Clients of version 4 that may still reclaim their state since the last restart.", func(d *nfs4Doc) int64 { return int64(d.Grace) }),
	perNFS4("nfs4_recording_fails", "1 if clients of version 4 cannot open or lock files, because the list of these clients cannot be written.", func(d *nfs4Doc) int64 {
		if d.Failing {
			return 1
		}
		return 0
	}),
	perNFS4("nfs4_reply_bytes", "Bytes of replies that the slots of all sessions can keep.", func(d *nfs4Doc) int64 { return d.ReplyBytes }),

	perTransport(gauge, "connections", "Present connections.", func(t *transportDoc) float64 { return float64(t.Connections.Now) }),
	perTransport(counter, "connections_accepted_total", "Accepted connections.", func(t *transportDoc) float64 { return float64(t.Connections.Total) }),
	perTransport(counter, "connections_refused_total", "Connections refused because the limit was reached.", func(t *transportDoc) float64 { return float64(t.Connections.Refused) }),
	perTransport(counter, "connections_replaced_total", "Connections closed for one of another host, or for a newer one of the same host.", func(t *transportDoc) float64 { return float64(t.Connections.Replaced) }),
	perTransport(counter, "connections_stalled_total", "Connections cut because they made no progress while they held memory that others waited for.", func(t *transportDoc) float64 { return float64(t.Connections.Stalled) }),
	perTransport(gauge, "waiting_calls", "Calls that wait for memory.", func(t *transportDoc) float64 { return float64(t.WaitingCalls) }),
	gauge("calls_under_way", "Calls without a reply so far.", byTransport, func(s *sight, emit emitter) {
		sum := make(map[string]int)
		for i := range s.Connections {
			sum[s.Connections[i].Transport] += s.Connections[i].CallsUnderWay
		}
		for i := range s.Transports {
			emit(float64(sum[s.Transports[i].Name]), s.Transports[i].Name)
		}
	}),
	perMemory("memory_bytes", "Bytes of memory in use.", func(m *memoryDoc) int64 { return m.InUse }),
	perMemory("memory_limit_bytes", "Bytes of memory that may be in use.", func(m *memoryDoc) int64 { return m.Limit }),

	counter("rdma_refused_calls_total", "Calls that RPC-over-RDMA could not serve, by the code of the RDMA_ERROR sent, or none.",
		[]string{"code"}, func(s *sight, emit emitter) {
			r := s.Transports[0].RDMA
			emit(float64(r.ErrVers), "ERR_VERS")
			emit(float64(r.ErrChunk), "ERR_CHUNK")
			emit(float64(r.Dropped), "none")
		}),
	perTerminate("terminates_sent_total", "Terminate messages sent, by their error (RFC 5040, Section 4.8).",
		func(r *deviceDoc) []terminateDoc { return r.TerminatesSent }),
	perTerminate("terminates_received_total", "Terminate messages received.",
		func(r *deviceDoc) []terminateDoc { return r.TerminatesReceived }),
	perDirection("fpdus_total", "FPDUs of MPA.", func(c *iwarp.Counts) uint64 { return c.FPDUs }),
	perDirection("rdmap_bytes_total", "Bytes after DDP headers.", func(c *iwarp.Counts) uint64 { return c.Bytes }),
	counter("rdmap_messages_total", "Messages of RDMAP, by operation.", []string{"direction", "operation"}, func(s *sight, emit emitter) {
		for op := range rdmap.Opcodes {
			name := rdmap.Opcode(op).String()
			emit(float64(s.device.Sent.Messages[op]), "sent", name)
			emit(float64(s.device.Received.Messages[op]), "received", name)
		}
	}),
	gauge("regions", "Registered memory regions.", none, func(s *sight, emit emitter) { emit(float64(s.device.Regions)) }),
	gauge("region_bytes", "Bytes in them.", none, func(s *sight, emit emitter) { emit(float64(s.device.RegionBytes)) }),

	gauge("replay_replies", "Replies kept for retransmitted calls.", none, func(s *sight, emit emitter) { emit(float64(s.ReplayCache.Replies)) }),
	gauge("replay_bytes", "Bytes of the replies kept.", none, func(s *sight, emit emitter) { emit(float64(s.ReplayCache.Bytes)) }),
	counter("replay_executed_total", "Executed calls of those that must not be executed twice.", none, func(s *sight, emit emitter) { emit(float64(s.ReplayCache.Executed)) }),
	counter("replay_answered_total", "Retransmissions of such calls answered with the first reply.", none, func(s *sight, emit emitter) {
		emit(float64(s.ReplayCache.Replayed + s.ReplayCache.Joined))
	}),
	gauge("grants", "Objects that clients hold, by delegation counter.", none, func(s *sight, emit emitter) {
		if s.Grants != nil {
			emit(float64(s.Grants.InForce))
		}
	}),
	gauge("grants_of_largest_party", "Grants in force of the address with the most.", none, func(s *sight, emit emitter) {
		if s.Grants != nil {
			_, n := s.Grants.largest()
			emit(float64(n))
		}
	}),
	counter("grant_refusals_total", "Refused ACQUIREs.", []string{"reason"}, func(s *sight, emit emitter) {
		if s.Grants != nil {
			for why := delegation.ReasonContended; why <= delegation.ReasonOver; why++ {
				emit(float64(s.Grants.RefusedBy[why.String()]), why.String())
			}
		}
	}),
	gauge("grant_wait_seconds", "Time for which changes still wait, because clients may hold delegations of the daemon before this one.", none, func(s *sight, emit emitter) {
		if s.Grants != nil {
			emit(s.Grants.WaitSeconds)
		}
	}),
	counter("grant_events_total", "Outcomes of requests for delegations and of delegations, by delegation counter.", []string{"event"}, func(s *sight, emit emitter) {
		if s.Grants != nil {
			s.Grants.events(emit)
		}
	}),
	counter("discover_requests_total", "Requests over RoCE, by outcome.", []string{"outcome"}, func(s *sight, emit emitter) {
		if d := s.Discovery; d != nil {
			emit(float64(d.Queries+d.Registered+d.Watched), "answered")
			emit(float64(d.Refused), "refused")
			emit(float64(d.Dropped), "dropped")
		}
	}),
	perDiscovery(counter, "discover_notices_total", "Notices of a restart sent to clients.", func(d *discoveryDoc) uint64 { return d.Notices }),
	perDiscovery(counter, "discover_updates_total", "Updates of counters sent to monitors.", func(d *discoveryDoc) uint64 { return d.Updates }),
	perDiscovery(gauge, "discover_clients", "Clients that get notice of a restart.", func(d *discoveryDoc) uint64 { return uint64(d.Clients) }),
	perDiscovery(gauge, "discover_monitors", "Monitors that receive streamed counters.", func(d *discoveryDoc) uint64 { return uint64(d.Monitors) }),
	counter("trace_spans_total", "Spans of --trace, by outcome.", []string{"outcome"}, func(s *sight, emit emitter) {
		if t := s.Trace; t != nil {
			emit(float64(t.Sent), "sent")
			emit(float64(t.Dropped), "dropped")
			emit(float64(t.Failed), "failed")
		}
	}),
	counter("replay_forgotten_total", "Replies dropped early to make room.", none, func(s *sight, emit emitter) { emit(float64(s.ReplayCache.Forgotten)) }),
}, append(kerberosMetrics, tlsMetrics...)...)

func perNFS4(name, help string, value func(*nfs4Doc) int64) metric {
	return gauge(name, help, none, func(s *sight, emit emitter) {
		if s.NFS4 != nil {
			emit(float64(value(s.NFS4)))
		}
	})
}

func perDiscovery(kind func(string, string, []string, func(*sight, emitter)) metric, name, help string, value func(*discoveryDoc) uint64) metric {
	return kind(name, help, none, func(s *sight, emit emitter) {
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

func perTransport(kind func(string, string, []string, func(*sight, emitter)) metric, name, help string, value func(*transportDoc) float64) metric {
	return kind(name, help, byTransport, func(s *sight, emit emitter) {
		for i := range s.Transports {
			emit(value(&s.Transports[i]), s.Transports[i].Name)
		}
	})
}

func perMemory(name, help string, value func(*memoryDoc) int64) metric {
	return gauge(name, help, byMemory, func(s *sight, emit emitter) {
		for i := range s.Transports {
			for j := range s.Transports[i].Memory {
				m := &s.Transports[i].Memory[j]
				emit(float64(value(m)), s.Transports[i].Name, m.Name)
			}
		}
	})
}

func perTerminate(name, help string, all func(*deviceDoc) []terminateDoc) metric {
	return counter(name, help, byCause, func(s *sight, emit emitter) {
		for _, t := range all(s.Transports[0].RDMA) {
			emit(float64(t.Count), strconv.Itoa(int(t.Layer)), strconv.Itoa(int(t.Type)), fmt.Sprintf("%#02x", t.Code))
		}
	})
}

func perDirection(name, help string, value func(*iwarp.Counts) uint64) metric {
	return counter(name, help, byDirection, func(s *sight, emit emitter) {
		emit(float64(value(&s.device.Sent)), "sent")
		emit(float64(value(&s.device.Received)), "received")
	})
}
