package main

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/internal/buildinfo"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4server"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcsec"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A runningDaemon has the parts of a daemon that status and metrics read. Values are read on
// request; only the history collects values in between.
type runningDaemon struct {
	started  time.Time
	draining atomic.Bool
	standby  *standbyState // nil without --standby
	opened   bool          // openWaiting has opened the control socket and the address of --metrics

	server      *nfsrdma.Server
	nfs4        *nfs4server.Server // nil without NFSv4
	stateServer *nfs4server.Server // has the clients' state, for all versions
	observer    *rpcstats.Observer
	replies     *replay.Cache
	security    *rpcsec.Server

	kerberos *kerberosAcceptor
	tls      *rpctls.Server // or nil

	grants         *delegserver.Keeper // nil with --no-extensions
	device         *iwarp.Device
	rdma           *rpcrdma.Server
	tcp            *oncrpc.Server // or nil
	endpoints      []cli.Endpoint // listening since the start
	late           []*lateTransport
	serviceManager serviceManager
	reloadsReady   chan struct{}                    // closed when orders is set
	orders         atomic.Pointer[chan reloadOrder] // reload orders; nil: not accepted
	exportsFile    string                           // "" if the arguments name the exports
	shares         *shareSet
	log            *logControl
	reloadFailed   atomic.Bool  // the last reload, or the start, had an error
	reloadTime     atomic.Int64 // when the last one without an error was, in nanoseconds since 1970
	sockets        cli.Sockets  // passed by the service manager
	metricsAddr    net.Addr     // or nil

	stateDir  string     // data that survive a restart
	discovery *discovery // or nil
	tracer    *tracer    // or nil
	space     report.SpaceReader
	history   *report.History // nil without metricsAddr

	callTraces callTraces
}

// wrapReplies puts an observer between the transports and the replay cache.
func (p *runningDaemon) wrapReplies(replies oncrpc.Service) oncrpc.Service {
	p.started = time.Now()
	var all []rpcstats.Observed
	for _, g := range report.Programs {
		all = append(all, g.Observed)
	}
	p.observer = rpcstats.NewObserver(replies, all...)
	return tracedService{p.observer}
}

// reportSource returns the parts of the daemon that status and metrics describe.
func (p *runningDaemon) reportSource() *report.Source {
	src := &report.Source{
		Program: buildinfo.Version(version), Started: p.started, Draining: p.draining.Load(),
		Exports: func() []*exportset.Exported { return p.server.Parts().Exports.Snapshot().List() }, Space: &p.space, ExportsFile: p.exportsFile, Origins: p.exportOrigins,
		ReloadFailed: p.reloadFailed.Load(), Reloaded: time.Unix(0, p.reloadTime.Load()), Addresses: p.transportAddrs,
		NFS4: p.nfs4, ClientState: p.stateServer, Observer: p.observer, Replies: p.replies, Security: p.security, TLS: p.tls,
		Grants: p.grants, Device: p.device, RDMA: p.rdma, TCP: p.tcp,
		History: p.history, Standby: p.standby.describe, Discovery: func() *report.Discovery { return p.discovery.discoveryStatus() }, Spans: p.tracer.spanStatus,
	}
	if a, ok := p.metricsAddr.(*net.TCPAddr); ok {
		src.ShowsFiles = a.IP.IsLoopback()
	}
	if p.kerberos != nil && !p.kerberos.isOff() {
		src.Kerberos, src.Keytab = true, p.kerberos.keytab
	}
	return src
}

// exportOrigins returns where each export is, by path: FILE:LINE, until restart, or "" if it is an
// argument.
func (p *runningDaemon) exportOrigins() map[string]string {
	origins := make(map[string]string)
	for _, e := range p.shares.exportedList() {
		origins[e.name] = strings.TrimSuffix(e.position, ": ")
	}
	return origins
}

// metricsHandler returns the handler for --metrics.
func (p *runningDaemon) metricsHandler() http.Handler {
	return p.whileWaiting(p.waitingMetrics(), report.NewHandler(p.reportSource))
}

// uptime returns the time since the daemon started to serve.
func (p *runningDaemon) uptime() time.Duration { return time.Since(p.started) }

// transports returns the transports as they are now. The address of one that does not listen yet is
// its *lateTransport.
func (p *runningDaemon) transports() []cli.Endpoint {
	return addEndpoints(slices.Clone(p.endpoints), p.late)
}

// transportAddrs returns the addresses of a transport.
func (p *runningDaemon) transportAddrs(transport string) (addrs []string) {
	for _, w := range p.transports() {
		if w.Name == transport {
			addrs = append(addrs, w.Addr.String())
		}
	}
	return addrs
}
