package main

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// status collects the whole status.
func (p *operations) status() *statusDoc {
	d := &statusDoc{
		Version: statusVersion,
		Daemon: daemonDoc{
			Version: cli.VersionString(version), PID: os.Getpid(), UID: os.Geteuid(), State: p.state(), Since: p.started,
		},
		Transports:  p.transports(),
		Connections: p.connections(),
		Exports:     p.exported(),
		Procedures:  p.procedures(),
		Operations:  p.operations4(),
	}
	r := p.replies.Stats()
	d.ReplayCache = replayDoc{r.Replies, r.Bytes, r.Bytes, r.Executed, r.Replayed, r.Joined, r.Forgotten}
	d.Grants = lookAtGrants(p.grants)
	d.Discovery = p.discovery.status()
	d.Trace = p.tracer.status()
	d.Kerberos = p.lookAtContexts()
	d.TLS = p.lookAtTLS()
	if p.four != nil {
		n := p.four.Counts()
		g := p.four.Grace()
		d.NFS4 = &nfs4Doc{
			n.Clients, n.Unconfirmed, n.Sessions, n.Opens, n.Locks, n.Delegations, n.Writes, n.Granted, n.Recalled, n.RevokedDelegations, n.Replies, n.MaxReplies,
			n.Records, n.Failing, g.Clients, g.Left.Seconds(),
		}
	}
	return d
}

func (p *operations) transports() []transportDoc {
	s := p.rdma.Stats()
	dev := p.device.Stats()
	all := []transportDoc{{
		Name: "rdma", Address: p.address("rdma"), Connections: connectionsDoc(s.Totals), WaitingCalls: s.Waiting,
		Memory: []memoryDoc{{"chunks", s.Memory.InUse, s.Memory.Limit}, {"messages", s.Inline.InUse, s.Inline.Limit}, {"counters", s.Counters.InUse, s.Counters.Limit}},
		RDMA: &deviceDoc{
			ErrVers: s.ErrVers, ErrChunk: s.ErrChunk, Dropped: s.Dropped,
			TerminatesSent: terminates(dev.TerminatesSent), TerminatesReceived: terminates(dev.TerminatesReceived),
			FPDUsSent: dev.Sent.FPDUs, FPDUsReceived: dev.Received.FPDUs,
			Regions: dev.Regions, RegionBytes: dev.RegionBytes, RegionOctets: dev.RegionBytes,
		},
	}}
	if p.tcp != nil {
		s := p.tcp.Stats()
		all = append(all, transportDoc{
			Name: "tcp", Address: p.address("tcp"), Connections: connectionsDoc(s.Totals), WaitingCalls: s.Waiting,
			Memory: []memoryDoc{{"calls", s.Requests.InUse, s.Requests.Limit}, {"replies", s.Replies.InUse, s.Replies.Limit}},
		})
	}
	return all
}

// terminates lists Terminates by their error. All errors that no standard
// defines share one row, because a peer can invent thousands.
func terminates(counts map[rdmap.Error]uint64) []terminateDoc {
	all := []terminateDoc{}
	var undefined uint64
	order := func(a, b rdmap.Error) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Code, b.Code))
	}
	for _, e := range slices.SortedFunc(maps.Keys(counts), order) {
		if e.Defined() {
			all = append(all, terminateDoc{e.Layer, e.Type, e.Code, e.Error(), counts[e]})
		} else {
			undefined += counts[e]
		}
	}
	if undefined > 0 {
		all = append(all, terminateDoc{0xf, 0xf, 0xff, "undefined", undefined})
	}
	return all
}

func (p *operations) connections() []connDoc {
	all := []connDoc{}
	for _, c := range p.rdma.Connections() {
		d := rdmaConn(&c)
		d.RDMA.Extensions.Grants = p.grants.Held(c.ExtensionConn)
		all = append(all, d)
	}
	if p.tcp != nil {
		for _, c := range p.tcp.Connections() {
			all = append(all, connDoc{
				Transport: "tcp", Peer: c.Peer.String(), Since: c.Since, Calls: c.Calls, CallsUnderWay: c.UnderWay,
				Security: newSecurityDoc(c.Security), trafficDoc: newTrafficDoc(c.In, c.Out),
			})
		}
	}
	return all
}

func rdmaConn(c *rpcrdma.ConnStats) connDoc {
	d := connDoc{
		Security: newSecurityDoc(nil), Transport: "rdma", Peer: c.Peer.String(), Since: c.Since, Calls: c.Calls, CallsUnderWay: c.UnderWay,
		RDMA: &rdmaConnDoc{
			InlineSend: c.SendInline, InlineReceive: c.RecvInline, RemoteInvalidation: c.Invalidate, CreditsGranted: c.Granted,
			Extensions: extensionsDoc{
				Client: c.Ours, ImmediateData: c.Extensions.Immediate, Atomics: c.Extensions.Atomics, Delegation: c.Extensions.Delegation,
			},
		},
	}
	if conn, ok := c.Conn.(*iwarp.Conn); ok {
		if s, ok := conn.NetConn().(oncrpc.SecureConn); ok {
			d.Security = newSecurityDoc(s.Security())
		}
		d.trafficDoc = newTrafficDoc(conn.Traffic())
		m, r := conn.Params(), d.RDMA
		r.MPARevision, r.CRC, r.MarkersSent, r.MarkersReceived = int(m.Rev), m.CRC, m.SendMarkers, m.RecvMarkers
		r.PeerToPeer, r.IRD, r.ORD = m.PeerToPeer, m.IRD, m.ORD
		sent, received := conn.Counts()
		r.FPDUsSent, r.FPDUsReceived = sent.FPDUs, received.FPDUs
	}
	return d
}

func (p *operations) exported() []exportDoc {
	all := []exportDoc{}
	for _, e := range p.server.Exports() {
		d := exportDoc{Path: e.Path, Clients: []string{}}
		for _, c := range e.Clients {
			d.Clients = append(d.Clients, c.String())
		}
		all = append(all, d)
	}
	return all
}

func (p *operations) procedures() []procDoc {
	all := []procDoc{}
	for _, s := range p.observer.Stats() {
		d := procDoc{
			Calls: s.Calls, trafficDoc: newTrafficDoc(s.In, s.Out), Seconds: s.Duration.Seconds(),
			Latency: []latencyDoc{}, Errors: []errorDoc{},
		}
		d.Program, d.Procedure = names(&s)
		for i, n := range s.Took {
			if n > 0 {
				d.Latency = append(d.Latency, latencyDoc{bound(i).Seconds(), n})
			}
		}
		for _, f := range s.Failed {
			d.Errors = append(d.Errors, errorDoc{outcomeName(&s, f.Outcome), f.Count})
		}
		all = append(all, d)
	}
	return all
}

// operations4 lists the operations of version 4.
func (p *operations) operations4() []operationDoc {
	all := []operationDoc{}
	if p.four == nil {
		return all
	}
	for _, s := range p.four.Operations() {
		d := operationDoc{Operation: operationName(s.Op), Count: s.Count, Errors: []operationErrorDoc{}}
		for _, f := range s.Failed {
			name := f.String()
			if f.Kind == rpcstats.OutcomeStatus {
				name = nfs4Status(f.Code)
			}
			d.Errors = append(d.Errors, operationErrorDoc{name, f.Count})
		}
		all = append(all, d)
	}
	return all
}

// bound returns the upper bound of a class of latencies, or 0 for the last
// class.
func bound(class int) time.Duration {
	if class < len(rpcstats.LatencyBounds) {
		return rpcstats.LatencyBounds[class]
	}
	return 0
}
