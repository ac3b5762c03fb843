package main

import (
	"net"
	"sync/atomic"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/iwarp"
	"github.com/nfsrdma/nfsrdma/nfs4server"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcstats"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcsec"
	"github.com/nfsrdma/nfsrdma/rpctls"
)

// operations are the parts of a daemon that status and metrics read. Values are
// read on request; nothing is gathered in between.
type operations struct {
	started  time.Time
	draining atomic.Bool

	server   *nfsserver.Server
	four     *nfs4server.Server // nil without version 4
	holders  *nfs4server.Server // has the state of clients of all versions
	observer *rpcstats.Observer
	replies  *replay.Cache
	security *rpcsec.Server

	mechanism *mechanism
	tls       *rpctls.Server // or nil

	grants  *delegserver.Keeper // nil with --no-extensions
	device  *iwarp.Device
	rdma    *rpcrdma.Server
	tcp     *oncrpc.Server // or nil
	ways    []cli.Way
	manager manager
	settled chan struct{}                    // closed when orders is what it will be
	orders  atomic.Pointer[chan reloadOrder] // to read files again; nil: there are none
	file    string                           // of the exports, "" if the arguments name them
	passed  passed                           // sockets not taken yet
	metrics net.Addr                         // or nil

	dir       string     // for data that outlive the daemon
	discovery *discovery // or nil
	tracer    *tracer    // or nil
}

// observe puts an observer between the transports and the replay cache.
func (p *operations) observe(replies oncrpc.Service) oncrpc.Service {
	p.started = time.Now()
	var all []rpcstats.Observed
	for _, g := range programs {
		all = append(all, g.Observed)
	}
	p.observer = rpcstats.NewObserver(replies, all...)
	if p.tracer != nil {
		return tracedService{p.observer}
	}
	return p.observer
}

// state returns the daemon's state in one word.
func (p *operations) state() string {
	if p.draining.Load() {
		return "draining"
	}
	return "serving"
}

// uptime returns how long the daemon has served.
func (p *operations) uptime() time.Duration { return time.Since(p.started) }

// address returns the address of a transport.
func (p *operations) address(transport string) string {
	for _, w := range p.ways {
		if w.Name == transport {
			return w.Addr.String()
		}
	}
	return ""
}
