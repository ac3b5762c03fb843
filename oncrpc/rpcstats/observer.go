package rpcstats

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// An Observed is a program version whose procedures are counted individually.
type Observed struct {
	Prog, Vers uint32

	// Procs is the number of procedures, from 0 on.
	Procs uint32

	// ProcOf, if not nil, returns the procedure that a call is counted as. msg is the
	// call message from its XID on, with proc its procedure. It is for a procedure that
	// combines several, such as COMPOUND. The message is unchecked.
	ProcOf func(proc uint32, msg []byte) uint32

	// HasStatus reports whether a procedure's results begin with a status word, in which
	// 0 is success. Nil means that no results do.
	HasStatus func(proc uint32) bool
}

// An Observer is a Service in front of another Service that counts calls, bytes, errors
// and the time to reply. It must be placed between the transports and a replay.Cache to
// count replayed retries as well. It counts calls by procedure, by client, and in the Usage
// that the call's program has named (oncrpc.Work). Per call it costs two clock reads, and some
// additions under one lock that calls seldom wait for (lockShard), without an allocation.
type Observer struct {
	next     oncrpc.Service
	programs []observedProgram
	other    procCounts
	clients  clientTable
	since    time.Time
}

type observedProgram struct {
	Observed
	procs []procCounts
}

// NewObserver returns an Observer in front of next.
func NewObserver(next oncrpc.Service, programs ...Observed) *Observer {
	o := &Observer{next: next, since: time.Now()}
	for _, p := range programs {
		if p.HasStatus == nil {
			p.HasStatus = func(uint32) bool { return false }
		}
		o.programs = append(o.programs, observedProgram{p, make([]procCounts, p.Procs)})
	}
	return o
}

var _ oncrpc.Service = (*Observer)(nil)

// Serve passes a call to the next Service and counts it (Service).
func (o *Observer) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	p, ok := rpcmsg.ProcedureOf(req.Msg)
	if !ok {
		return o.next.Serve(ctx, req, rep)
	}
	in := len(req.Msg) + len(req.Item)
	n, hasStatus := o.findCounts(p, req.Msg) // the Service may change the message from here on

	start := time.Since(o.since) // reads only the monotonic clock
	answer = o.next.Serve(ctx, req, rep)
	end := time.Since(o.since)
	took := end - start
	class := latencyClass(took)
	var outcome Outcome
	out := 0
	if answer {
		outcome, out = OutcomeOf(rep.Head, hasStatus), rep.Len()
	}
	client := o.clients.clientOf(req.Peer, end) // may wait, so not under the shard's lock

	i := lockShard(req.Peer)
	n.countCall(i, class, outcome)
	n.shards[i].addTotals(took, in, out)
	if u, ok := rep.Work.Subject.(*Usage); ok {
		u.countCall(i, class, outcome)
		u.shards[i].nanoseconds += uint64(took)
	}
	if client != nil {
		client.countCall(i, class, outcome)
		client.CountData(req.Peer, rep.Work.Read, rep.Work.Written)
	}
	shardLocks[i].Unlock()
	return answer
}

// Resumes reports whether the next Service Resumes.
func (o *Observer) Resumes() bool { return oncrpc.Resumes(o.next) }

// findCounts returns the counters for a call of p.
func (o *Observer) findCounts(p rpcmsg.Procedure, msg []byte) (n *procCounts, hasStatus bool) {
	for i := range o.programs {
		g := &o.programs[i]
		if g.Prog != p.Prog || g.Vers != p.Vers {
			continue
		}
		if g.ProcOf != nil {
			p.Proc = g.ProcOf(p.Proc, msg)
		}
		if p.Proc < g.Procs {
			return &g.procs[p.Proc], g.HasStatus(p.Proc)
		}
	}
	return &o.other, false
}

// LatencyBounds are the upper bounds of ProcStats.Took, except for its last
// count, which has no bound.
var LatencyBounds = [...]time.Duration{
	5 * time.Microsecond, 10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 5 * time.Second,
}

// maxOutcomes bounds the outcomes that are counted separately for a procedure, an export or a client.
// NFSv4 has some 100 statuses, but few are usual: a full file system must not be among the others.
const maxOutcomes = 48

// procCounts are a procedure's counters.
type procCounts struct {
	shards [shardCount]counterShard
	failed outcomeCounts
}

// A counterShard is a copy of these counters, three cache lines long. Those that a short call
// changes are together.
type counterShard struct {
	nanoseconds uint64
	in, out     uint64
	took        [len(LatencyBounds) + 1]uint64
	_           [16]byte
}

// countCall counts a call with the latency class in the locked shard i.
func (n *procCounts) countCall(i, class int, o Outcome) {
	n.shards[i].took[class]++
	if o != (Outcome{}) {
		n.failed.countFailure(o)
	}
}

func (s *counterShard) addTotals(took time.Duration, in, out int) {
	s.nanoseconds += uint64(took)
	s.in += uint64(in)
	s.out += uint64(out)
}

// latencyClass returns the index of a call's counter in ProcStats.Took.
func latencyClass(took time.Duration) int {
	i := 0
	for i < len(LatencyBounds) && took > LatencyBounds[i] {
		i++
	}
	return i
}

// An outcomeCount counts replies with the same outcome. It is assigned to the first
// outcome that needs a counter.
type outcomeCount struct {
	outcome atomic.Uint64 // packed; 0: not assigned yet
	count   atomic.Uint64
}

// outcomeCounts counts failures by their outcome.
type outcomeCounts struct {
	counters [maxOutcomes]outcomeCount
	others   atomic.Uint64 // with further outcomes
}

func (c *outcomeCounts) countFailure(o Outcome) {
	packed := o.pack()
	for i := range c.counters {
		f := &c.counters[i]
		was := f.outcome.Load()
		if was == 0 && !f.outcome.CompareAndSwap(0, packed) {
			was = f.outcome.Load()
		}
		if was == 0 || was == packed {
			f.count.Add(1)
			return
		}
	}
	c.others.Add(1)
}

// OutcomeOf reads the outcome from the head of a reply that this module created (RFC
// 5531, Section 9).
func OutcomeOf(head []byte, hasStatus bool) Outcome {
	word := func(i int) uint32 { return binary.BigEndian.Uint32(head[i:]) }
	switch {
	case len(head) >= rpcmsg.AcceptedLen && word(8) == rpcmsg.MsgAccepted:
		if stat := word(20); stat != rpcmsg.Success {
			return Outcome{OutcomeAccept, stat}
		}
		if hasStatus && len(head) >= rpcmsg.AcceptedLen+4 && word(rpcmsg.AcceptedLen) != 0 {
			return Outcome{OutcomeStatus, word(rpcmsg.AcceptedLen)}
		}
	case len(head) >= 20 && word(8) == rpcmsg.MsgDenied:
		if word(12) == rpcmsg.DeniedAuth {
			return Outcome{OutcomeAuth, word(16)}
		}
		return Outcome{OutcomeRPCVersion, 0}
	}
	return Outcome{}
}
