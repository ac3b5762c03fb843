package oncrpc

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// An Observed is a version of a program whose calls an Observer counts one by one.
type Observed struct {
	Prog, Vers uint32

	// Procs is the number of procedures, from 0 on.
	Procs uint32

	// HasStatus tells whether the results of a procedure begin with a status
	// word, in which 0 is success. nil: those of none do.
	HasStatus func(proc uint32) bool
}

// An Observer is a Service in front of another that counts calls, octets, errors
// and how long it takes to answer. It stands between the transports and the
// ReplayCache, so that retries answered from there count as well. To be observed
// costs a call two looks at the clock and some additions: no lock, no memory.
type Observer struct {
	next     Service
	programs []observed
	other    procCounts
	since    time.Time
}

type observed struct {
	Observed
	procs []procCounts
}

// NewObserver returns an Observer in front of next.
func NewObserver(next Service, programs ...Observed) *Observer {
	o := &Observer{next: next, since: time.Now()}
	for _, p := range programs {
		if p.HasStatus == nil {
			p.HasStatus = func(uint32) bool { return false }
		}
		o.programs = append(o.programs, observed{p, make([]procCounts, p.Procs)})
	}
	return o
}

var _ Service = (*Observer)(nil)

// Serve has a call answered (Service).
func (o *Observer) Serve(ctx context.Context, req *Request, rep *Reply) (answer bool) {
	p, ok := procedureOf(req.Msg)
	if !ok {
		return o.next.Serve(ctx, req, rep)
	}
	in := len(req.Msg) + len(req.Item)
	start := time.Since(o.since) // which does not ask for the time of day
	answer = o.next.Serve(ctx, req, rep)
	took := time.Since(o.since) - start
	n, hasStatus := o.counts(p)
	n.add(took, in)
	if answer {
		n.answered(rep, hasStatus)
	}
	return answer
}

// Resumes tells of the Service behind o (see the function of that name).
func (o *Observer) Resumes() bool { return Resumes(o.next) }

// counts returns where calls of p count.
func (o *Observer) counts(p procedure) (n *procCounts, hasStatus bool) {
	for i := range o.programs {
		if g := &o.programs[i]; g.Prog == p.prog && g.Vers == p.vers && p.proc < g.Procs {
			return &g.procs[p.proc], g.HasStatus(p.proc)
		}
	}
	return &o.other, false
}

// LatencyBounds are the upper bounds of ProcStats.Took; the last of these counts
// has none.
var LatencyBounds = [...]time.Duration{
	5 * time.Microsecond, 10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 5 * time.Second,
}

// procCounts are what is counted of one procedure.
type procCounts struct {
	took            [len(LatencyBounds) + 1]atomic.Uint64
	nanoseconds     atomic.Uint64
	in, out         atomic.Uint64
	failed          [maxOutcomes]outcomeCount
	failedOtherwise atomic.Uint64 // with one more
}

// An outcomeCount counts replies with one outcome, once there was one.
type outcomeCount struct {
	outcome atomic.Uint64 // as packed; 0: none yet
	n       atomic.Uint64
}

func (n *procCounts) add(took time.Duration, in int) {
	i := 0
	for i < len(LatencyBounds) && took > LatencyBounds[i] {
		i++
	}
	n.took[i].Add(1)
	n.nanoseconds.Add(uint64(took))
	n.in.Add(uint64(in))
}

func (n *procCounts) answered(rep *Reply, hasStatus bool) {
	n.out.Add(uint64(rep.Len()))
	o := outcomeOf(rep.Head, hasStatus)
	if o == (Outcome{}) {
		return
	}
	packed := o.pack()
	for i := range n.failed {
		f := &n.failed[i]
		was := f.outcome.Load()
		if was == 0 && !f.outcome.CompareAndSwap(0, packed) {
			was = f.outcome.Load()
		}
		if was == 0 || was == packed {
			f.n.Add(1)
			return
		}
	}
	n.failedOtherwise.Add(1)
}

// outcomeOf reads a reply of this end's: RFC 5531, Section 9.
func outcomeOf(head []byte, hasStatus bool) Outcome {
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
