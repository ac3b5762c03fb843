package rpcstats

import "sync/atomic"

// Operations counts the operations that a program executes, by number and by
// status. Counting costs one addition, and a second one for a failure.
type Operations struct{ each []operationCounts }

// operationCounts are an operation's counters.
type operationCounts struct {
	all    atomic.Uint64
	failed outcomeCounts
}

// OperationStats is a snapshot of an operation's counters.
type OperationStats struct {
	Op     uint32
	Count  uint64
	Failed []Failures // by status
}

// NewOperations returns counters for the operations below n. Operations from n on are
// counted together, as n.
func NewOperations(n uint32) *Operations { return &Operations{make([]operationCounts, n+1)} }

// Count counts one operation that finished with a status, in which 0 is success.
func (o *Operations) Count(op, status uint32) {
	c := &o.each[min(op, uint32(len(o.each)-1))]
	c.all.Add(1)
	if status != 0 {
		c.failed.countFailure(Outcome{OutcomeStatus, status})
	}
}

// Stats returns the operations that have been executed.
func (o *Operations) Stats() []OperationStats {
	var all []OperationStats
	for i := range o.each {
		c := &o.each[i]
		if n := c.all.Load(); n > 0 {
			all = append(all, OperationStats{uint32(i), n, c.failed.listFailures()})
		}
	}
	return all
}
