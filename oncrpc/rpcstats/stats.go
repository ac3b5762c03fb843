package rpcstats

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// An Outcome is the way in which a call failed. The zero value means success.
type Outcome struct {
	Kind OutcomeKind
	Code uint32 // as defined by Kind
}

// An OutcomeKind gives the meaning of an Outcome's Code.
type OutcomeKind uint32

// The kinds.
const (
	OutcomeStatus     OutcomeKind = iota + 1 // the status word of the program's results
	OutcomeAccept                            // the accept_stat (RFC 5531, Section 9)
	OutcomeAuth                              // the auth_stat
	OutcomeRPCVersion                        // 0: RPC_MISMATCH
	OutcomeOther                             // 0: outcomes beyond maxOutcomes
)

// String returns the RFC 5531 name for o, if any.
func (o Outcome) String() string {
	switch {
	case o.Kind == OutcomeAccept && o.Code < uint32(len(acceptNames)):
		return acceptNames[o.Code]
	case o.Kind == OutcomeAccept:
		return fmt.Sprintf("accept_stat %d", o.Code)
	case o.Kind == OutcomeAuth:
		return rpcmsg.AuthError(o.Code).Name()
	case o.Kind == OutcomeRPCVersion:
		return "RPC_MISMATCH"
	case o.Kind == OutcomeStatus:
		return fmt.Sprintf("status %d", o.Code)
	case o.Kind == OutcomeOther:
		return "other"
	}
	return "SUCCESS"
}

var acceptNames = [...]string{"SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"}

func (o Outcome) pack() uint64            { return uint64(o.Kind)<<32 | uint64(o.Code) }
func unpackOutcome(packed uint64) Outcome { return Outcome{OutcomeKind(packed >> 32), uint32(packed)} }

// ProcStats is a snapshot of a procedure's counters in an Observer.
type ProcStats struct {
	Prog, Vers, Proc uint32 // 0: all procedures that are not observed individually

	Calls    uint64
	In, Out  uint64        // bytes in calls and replies, including data items
	Duration time.Duration // sum over all calls
	Took     [len(LatencyBounds) + 1]uint64
	Failed   []Failures // by outcome
}

// Failures is the number of replies with the same outcome.
type Failures struct {
	Outcome
	Count uint64
}

// Stats returns the procedures that have been called.
func (o *Observer) Stats() []ProcStats {
	var all []ProcStats
	for i := range o.programs {
		g := &o.programs[i]
		for proc := range g.procs {
			if s := g.procs[proc].snapshot(); s.Calls > 0 {
				s.Prog, s.Vers, s.Proc = g.Prog, g.Vers, uint32(proc)
				all = append(all, s)
			}
		}
	}
	if s := o.other.snapshot(); s.Calls > 0 {
		all = append(all, s)
	}
	return all
}

func (n *procCounts) snapshot() ProcStats {
	var s ProcStats
	for i := range n.shards {
		shardLocks[i].Lock()
		c := n.shards[i]
		shardLocks[i].Unlock()
		s.In, s.Out, s.Duration = s.In+c.in, s.Out+c.out, s.Duration+time.Duration(c.nanoseconds)
		for i, calls := range c.took {
			s.Took[i], s.Calls = s.Took[i]+calls, s.Calls+calls
		}
	}
	s.Failed = n.failed.listFailures()
	return s
}

// listFailures returns the failures, sorted by outcome.
func (c *outcomeCounts) listFailures() (all []Failures) {
	for i := range c.counters {
		if count := c.counters[i].count.Load(); count > 0 {
			all = append(all, Failures{unpackOutcome(c.counters[i].outcome.Load()), count})
		}
	}
	if count := c.others.Load(); count > 0 {
		all = append(all, Failures{Outcome{OutcomeOther, 0}, count})
	}
	slices.SortFunc(all, func(a, b Failures) int { return cmp.Compare(a.pack(), b.pack()) })
	return all
}
