package main

import (
	"context"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
)

// Leases of delegation counters. A client increments its counter three times per lease. A
// lease longer than a few minutes would delay conflicting calls too long.
const (
	defaultLease = 10 * time.Second
	minLease     = 100 * time.Millisecond
	minLease4    = 10 * time.Second // clients renew a lease after a fraction of it, and a call may take seconds
	maxLease     = delegserver.MaxLease
)

// drainContext returns a context that is canceled after ctx, when clients have returned their
// delegations or the Keeper has stopped waiting for them. The caller must call end.
func (p *runningDaemon) drainContext(ctx context.Context) (_ context.Context, end func()) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		p.server.Drain()
		cancel()
	})
	return later, func() {
		stop()
		cancel()
	}
}
