package rpcstats

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Counter is a Caller in front of another Caller. It counts calls, bytes, errors and
// time for each procedure of a program. Calls to other programs are not counted.
type Counter struct {
	next     oncrpc.Caller
	observed Observed
	procs    []callCounts
}

// callCounts are a procedure's counters.
type callCounts struct {
	started, finished, failed atomic.Uint64
	sent, received            atomic.Uint64
	nanoseconds               atomic.Uint64
}

// CallStats is a snapshot of a procedure's counters in a Counter.
type CallStats struct {
	Calls          uint64        // finished calls
	InFlight       uint64        // calls in flight
	Failed         uint64        // finished without results, or with a nonzero status in them
	Sent, Received uint64        // bytes in arguments and results, including data items, without RPC headers
	Duration       time.Duration // from Call to its return, summed over all finished calls
}

// NewCounter returns a Counter in front of next.
func NewCounter(next oncrpc.Caller, o Observed) *Counter {
	if o.HasStatus == nil {
		o.HasStatus = func(uint32) bool { return false }
	}
	return &Counter{next: next, observed: o, procs: make([]callCounts, o.Procs)}
}

var _ oncrpc.Caller = (*Counter)(nil)

// Call makes a call (Caller).
func (c *Counter) Call(ctx context.Context, x *oncrpc.Exchange) error {
	o := &c.observed
	if x.Relay || x.Prog != o.Prog || x.Vers != o.Vers || x.Proc >= o.Procs {
		return c.next.Call(ctx, x)
	}
	n := &c.procs[x.Proc]
	n.started.Add(1)
	n.sent.Add(uint64(len(x.Args) + len(x.Item) + len(x.Tail)))
	start := time.Now()
	err := c.next.Call(ctx, x)
	n.nanoseconds.Add(uint64(time.Since(start)))
	if err == nil {
		n.received.Add(uint64(x.Results.Left()))
		results := x.Results // a copy, so that x.Results keeps its position
		if o.HasStatus(x.Proc) && results.Uint32() != 0 {
			n.failed.Add(1)
		}
	} else {
		n.failed.Add(1)
	}
	n.finished.Add(1)
	return err
}

// Stats returns a procedure's counts.
func (c *Counter) Stats(proc uint32) CallStats {
	n := &c.procs[proc]
	s := CallStats{
		Calls: n.finished.Load(), Failed: n.failed.Load(), Sent: n.sent.Load(), Received: n.received.Load(),
		Duration: time.Duration(n.nanoseconds.Load()),
	}
	s.InFlight = n.started.Load() - s.Calls // loaded after ended, so never negative
	return s
}
