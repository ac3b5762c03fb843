package main

import (
	"net"
	"sync/atomic"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// operations are the parts of a daemon that status and metrics look at. What they
// find is read when somebody asks; nothing is gathered between times.
type operations struct {
	started  time.Time
	draining atomic.Bool

	server   *nfsserver.Server
	observer *oncrpc.Observer
	replies  *oncrpc.ReplayCache
	grants   *delegserver.Keeper // nil with --no-extensions
	rdma     *rpcrdma.Server
	tcp      *oncrpc.Server // or nil
	ways     []cli.Way
	manager  manager
	passed   passed   // what is left of it
	metrics  net.Addr // or nil

	dir       string     // for what outlives the daemon
	discovery *discovery // or nil
}

// observe puts an observer between the transports and the cache of replies.
func (p *operations) observe(replies *oncrpc.ReplayCache) oncrpc.Service {
	p.started, p.replies = time.Now(), replies
	var all []oncrpc.Observed
	for _, g := range programs {
		all = append(all, g.Observed)
	}
	p.observer = oncrpc.NewObserver(replies, all...)
	return p.observer
}

// state is what the daemon does, in a word.
func (p *operations) state() string {
	if p.draining.Load() {
		return "draining"
	}
	return "serving"
}

// uptime is how long the daemon has served.
func (p *operations) uptime() time.Duration { return time.Since(p.started) }

// address is where a transport listens.
func (p *operations) address(transport string) string {
	for _, w := range p.ways {
		if w.Name == transport {
			return w.Addr.String()
		}
	}
	return ""
}
