package rpcstats

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A Counter is a Caller in front of another Caller. It counts
// calls, bytes, errors and time for each procedure of a program. Calls of other
// programs pass uncounted.
type Counter struct {
	next     oncrpc.Caller
	observed Observed
	procs    []callCounts
}

// callCounts are the counters of a procedure.
type callCounts struct {
	begun, ended, failed atomic.Uint64
	sent, received       atomic.Uint64
	nanoseconds          atomic.Uint64
}

// CallStats is a snapshot of a Counter's counters of a procedure.
type CallStats struct {
	Calls          uint64        // ended calls
	UnderWay       uint64        // begun calls that have not ended
	Failed         uint64        // ended without results, or with a nonzero status in them
	Sent, Received uint64        // bytes of arguments and results, data items included, without the headers of RPC
	Duration       time.Duration // from Call to its return, sum over all ended calls
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
	n.begun.Add(1)
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
	n.ended.Add(1)
	return err
}

// Stats returns the counts of a procedure.
func (c *Counter) Stats(proc uint32) CallStats {
	n := &c.procs[proc]
	s := CallStats{
		Calls: n.ended.Load(), Failed: n.failed.Load(), Sent: n.sent.Load(), Received: n.received.Load(),
		Duration: time.Duration(n.nanoseconds.Load()),
	}
	s.UnderWay = n.begun.Load() - s.Calls // loaded after ended, so never negative
	return s
}
