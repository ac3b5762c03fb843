package report

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4server"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcsec"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A Source has the daemon's parts that documents and metrics describe. Values are read on
// request; only a History collects values in between.
type Source struct {
	Program  string // the program's version
	Started  time.Time
	Draining bool // the daemon completes its calls before it exits

	Exports     func() []*exportset.Exported
	Space       *SpaceReader
	ExportsFile string                          // "" if the arguments name the exports
	Origins     func() map[string]string        // where each export is, by path
	Addresses   func(transport string) []string // none for a transport that is not served
	ShowsFiles  bool                            // the live page lists clients' files by path

	ReloadFailed bool      // the last reload, or the start, had an error
	Reloaded     time.Time // when the last one without an error was

	NFS4        *nfs4server.Server // nil without NFSv4
	ClientState *nfs4server.Server // has the clients' state, for all versions
	Observer    *rpcstats.Observer
	Replies     *replay.Cache
	Security    *rpcsec.Server
	Kerberos    bool           // an export uses Kerberos
	Keytab      string         // for Kerberos
	TLS         *rpctls.Server // or nil

	Grants *delegserver.Keeper // nil with --no-extensions
	Device *iwarp.Device
	RDMA   *rpcrdma.Server
	TCP    *oncrpc.Server // or nil

	History *History // nil without the live page

	Standby   func() *Standby   // returns nil without --standby
	Discovery func() *Discovery // returns nil without --discover
	Spans     func() *Spans     // returns nil without --trace
}

// stateWord returns the daemon's state as one word.
func (src *Source) stateWord() string {
	if src.Draining {
		return "draining"
	}
	return "serving"
}

// CollectStatus collects the whole status.
func (src *Source) CollectStatus() *Status {
	d := &Status{
		Version: SchemaVersion,
		Daemon: daemonDoc{
			Version: src.Program, PID: os.Getpid(), UID: os.Geteuid(), State: src.stateWord(), Since: src.Started,
		},
		Transports:  src.CollectTransports(),
		Connections: src.CollectConnections(),
		Exports:     src.collectExportActivity(),
		Procedures:  src.collectProcs(),
		Operations:  src.collectOperations(),
		Reload:      reloadDoc{!src.ReloadFailed, src.Reloaded},
	}
	r := src.Replies.Stats()
	d.ReplayCache = replayDoc{r.Replies, r.Bytes, r.Bytes, r.Executed, r.Replayed, r.Joined, r.Forgotten}
	d.ClientActivity = src.collectClientActivity()
	d.Grants = newGrants(src.Grants, src.ClientState.Grace().Counters)
	d.Discovery = src.Discovery()
	d.Standby = src.Standby()
	d.Trace = src.Spans()
	d.Kerberos = src.collectKerberos()
	d.TLS = src.collectTLS()
	if src.NFS4 != nil {
		n := src.NFS4.Counts()
		g := src.NFS4.Grace()
		d.NFS4 = &nfs4Doc{
			n.Clients, n.Unconfirmed, n.Sessions, n.Opens, n.Locks, n.Delegations, n.Writes, n.Granted, n.Recalled, n.RevokedDelegations, n.Replies, n.MaxReplies,
			n.Records, n.Failing, g.Clients, g.Left.Seconds(),
		}
	}
	return d
}

// CollectTransports describes the transports, RDMA first.
func (src *Source) CollectTransports() []Transport {
	s := src.RDMA.Stats()
	dev := src.Device.Stats()
	all := []Transport{{
		Name: "rdma", Connections: ConnectionCounts(s.Totals), WaitingCalls: s.Waiting,
		Memory: []memoryDoc{{"chunks", s.Memory.InUse, s.Memory.Limit}, {"messages", s.Inline.InUse, s.Inline.Limit}, {"counters", s.Counters.InUse, s.Counters.Limit}},
		RDMA: &deviceDoc{
			ErrVers: s.ErrVers, ErrChunk: s.ErrChunk, Dropped: s.Dropped,
			TerminatesSent: newTerminateDocs(dev.TerminatesSent), TerminatesReceived: newTerminateDocs(dev.TerminatesReceived),
			FPDUsSent: dev.Sent.FPDUs, FPDUsReceived: dev.Received.FPDUs,
			Regions: dev.Regions, RegionBytes: dev.RegionBytes, RegionOctets: dev.RegionBytes,
		},
	}}
	if src.TCP != nil {
		s := src.TCP.Stats()
		all = append(all, Transport{
			Name: "tcp", Connections: ConnectionCounts(s.Totals), WaitingCalls: s.Waiting,
			Memory: []memoryDoc{{"calls", s.Requests.InUse, s.Requests.Limit}, {"replies", s.Replies.InUse, s.Replies.Limit}},
		})
	}
	for i := range all {
		all[i].setAddresses(src.Addresses(all[i].Name))
	}
	return all
}

// setAddresses sets the addresses: Addresses only if there are several.
func (t *Transport) setAddresses(addrs []string) {
	if len(addrs) > 0 {
		t.Address = addrs[0]
	}
	if len(addrs) > 1 {
		t.Addresses = addrs
	}
}

// newTerminateDocs lists Terminates by their error. All errors that no standard defines share
// one row, because a peer can invent thousands.
func newTerminateDocs(counts map[rdmap.Error]uint64) []terminateDoc {
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

// CollectConnections describes the current connections, those over RDMA first.
func (src *Source) CollectConnections() []Connection {
	all := []Connection{}
	for _, c := range src.RDMA.Connections() {
		d := newRDMAConnection(&c)
		d.RDMA.Extensions.Grants = src.Grants.Held(c.ExtensionConn)
		all = append(all, d)
	}
	if src.TCP != nil {
		for _, c := range src.TCP.Connections() {
			all = append(all, Connection{
				Transport: "tcp", Peer: c.Peer.String(), Since: c.Since, Calls: c.Calls, CallsUnderWay: c.InFlight,
				Security: newSecurityDoc(c.Security), Traffic: newTraffic(c.In, c.Out),
			})
		}
	}
	return all
}

func newRDMAConnection(c *rpcrdma.ConnStats) Connection {
	d := Connection{
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
		d.Traffic = newTraffic(conn.Traffic())
		m, r := conn.Params(), d.RDMA
		r.MPARevision, r.CRC, r.MarkersSent, r.MarkersReceived = int(m.Rev), m.CRC, m.SendMarkers, m.RecvMarkers
		r.PeerToPeer, r.IRD, r.ORD = m.PeerToPeer, m.IRD, m.ORD
		sent, received := conn.Counts()
		r.FPDUsSent, r.FPDUsReceived = sent.FPDUs, received.FPDUs
	}
	return d
}

func (src *Source) newExports(list []*exportset.Exported) []Export {
	all, origins := []Export{}, src.Origins()
	for _, e := range list {
		d := Export{Path: e.Path, Clients: []string{}, Origin: origins[e.Path]}
		for _, c := range e.Clients {
			d.Clients = append(d.Clients, c.String())
		}
		if u, ok := e.FS.(exportset.Unavailable); ok {
			d.Unavailable = u.Reason
		}
		all = append(all, d)
	}
	return all
}

// collectExportActivity is collectExports with what was done with each export, and its space.
func (src *Source) collectExportActivity() []Export {
	list := src.Exports()
	all := src.newExports(list)
	for i, space := range src.Space.ReadSpace(list) {
		all[i].Activity, all[i].Space = newExportActivity(list[i]), space
	}
	return all
}

func (src *Source) collectProcs() []procDoc {
	all := []procDoc{}
	for _, s := range src.Observer.Stats() {
		d := procDoc{
			Calls: s.Calls, Traffic: newTraffic(s.In, s.Out), Seconds: s.Duration.Seconds(),
			Latency: newLatencyDocs(&s.Took), Errors: []ErrorCount{},
		}
		d.Program, d.Procedure = ProcNames(&s)
		for _, f := range s.Failed {
			d.Errors = append(d.Errors, ErrorCount{outcomeName(&s, f.Outcome), f.Count})
		}
		all = append(all, d)
	}
	return all
}

// collectOperations lists the NFSv4 operations.
func (src *Source) collectOperations() []operationDoc {
	all := []operationDoc{}
	if src.NFS4 == nil {
		return all
	}
	for _, s := range src.NFS4.Operations() {
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

// latencyBound returns a latency class's upper bound, or 0 for the last class.
func latencyBound(class int) time.Duration {
	if class < len(rpcstats.LatencyBounds) {
		return rpcstats.LatencyBounds[class]
	}
	return 0
}
