package oncrpc

import (
	"context"
	"sync/atomic"
	"time"
)

// A Counter is a Caller in front of another that counts the calls of one program,
// octets, errors and time, by procedure. All others pass.
type Counter struct {
	next     Caller
	observed Observed
	procs    []callCounts
}

// callCounts are what is counted of one procedure.
type callCounts struct {
	begun, ended, failed atomic.Uint64
	sent, received       atomic.Uint64
	nanoseconds          atomic.Uint64
}

// CallStats is what a Counter has counted of one procedure.
type CallStats struct {
	Calls          uint64        // that have ended
	UnderWay       uint64        // that have not
	Failed         uint64        // that had no results, or a status in them that is not 0
	Sent, Received uint64        // octets of arguments and results, data items included, without the headers of RPC
	Duration       time.Duration // from Call to its return, of all that have ended
}

// NewCounter returns a Counter in front of next.
func NewCounter(next Caller, o Observed) *Counter {
	if o.HasStatus == nil {
		o.HasStatus = func(uint32) bool { return false }
	}
	return &Counter{next: next, observed: o, procs: make([]callCounts, o.Procs)}
}

var _ Caller = (*Counter)(nil)

// Call makes a call (Caller).
func (c *Counter) Call(ctx context.Context, x *Exchange) error {
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
		results := x.Results // to look at, not to take
		if o.HasStatus(x.Proc) && results.Uint32() != 0 {
			n.failed.Add(1)
		}
	} else {
		n.failed.Add(1)
	}
	n.ended.Add(1)
	return err
}

// Stats returns what was counted of a procedure.
func (c *Counter) Stats(proc uint32) CallStats {
	n := &c.procs[proc]
	s := CallStats{
		Calls: n.ended.Load(), Failed: n.failed.Load(), Sent: n.sent.Load(), Received: n.received.Load(),
		Duration: time.Duration(n.nanoseconds.Load()),
	}
	s.UnderWay = n.begun.Load() - s.Calls // begun before
	return s
}
