package rpcstats

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// An Observed is a version of a program whose procedures are counted
// individually.
type Observed struct {
	Prog, Vers uint32

	// Procs is the number of procedures, from 0 on.
	Procs uint32

	// ProcOf, if not nil, returns the procedure that a call is counted as. msg
	// is the call message from its XID on, with proc its procedure. It is for a
	// procedure that stands for many, such as COMPOUND. The message is
	// unchecked.
	ProcOf func(proc uint32, msg []byte) uint32

	// HasStatus reports whether the results of a procedure begin with a status
	// word, in which 0 is success. Nil means that no results do.
	HasStatus func(proc uint32) bool
}

// An Observer is a Service in front of another Service that counts calls,
// bytes, errors and the time to answer. It must be placed between the
// transports and the cache of package replay to count replayed retries as well.
// Its cost per call is two reads of the clock and some additions, without a
// lock or an allocation.
type Observer struct {
	next     oncrpc.Service
	programs []observed
	other    procCounts
	since    time.Time
}

type observed struct {
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
		o.programs = append(o.programs, observed{p, make([]procCounts, p.Procs)})
	}
	return o
}

var _ oncrpc.Service = (*Observer)(nil)

// Serve answers a call by the next Service and counts it (Service).
func (o *Observer) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) (answer bool) {
	p, ok := rpcmsg.ProcedureOf(req.Msg)
	if !ok {
		return o.next.Serve(ctx, req, rep)
	}
	in := len(req.Msg) + len(req.Item)
	n, hasStatus := o.counts(p, req.Msg) // the message is the service's from here on
	s := n.share(req.Peer)
	start := time.Since(o.since) // reads only the monotonic clock
	answer = o.next.Serve(ctx, req, rep)
	took := time.Since(o.since) - start
	s.add(took, in)
	if answer {
		s.out.Add(uint64(rep.Len()))
		n.answered(rep, hasStatus)
	}
	return answer
}

// Resumes reports Resumes of the Service behind o.
func (o *Observer) Resumes() bool { return oncrpc.Resumes(o.next) }

// counts returns the counters for a call of p.
func (o *Observer) counts(p rpcmsg.Procedure, msg []byte) (n *procCounts, hasStatus bool) {
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

// maxOutcomes bounds the outcomes of a procedure that are counted separately:
// NFS has 29 statuses, most of which fit few procedures.
const maxOutcomes = 16

// procCounts are the counters of a procedure.
type procCounts struct {
	shares [shares]share
	failed outcomes
}

// shares is how many copies the counters have that change at each call. Connections have different
// ones, so that processors seldom take a line of memory from each other.
const shares = 8

// A share is a copy of these counters, and a line of memory between it and the next.
type share struct {
	took        [len(LatencyBounds) + 1]atomic.Uint64
	nanoseconds atomic.Uint64
	in, out     atomic.Uint64
	_           [64]byte
}

// share returns the counters for calls of a peer.
func (n *procCounts) share(peer *oncrpc.Peer) *share {
	if peer == nil {
		return &n.shares[0]
	}
	return &n.shares[peer.Addr.Port()/2%shares] // Linux prefers ports of one parity for connections
}

// An outcomeCount counts replies with the same outcome. It is assigned to the first
// outcome that needs a counter.
type outcomeCount struct {
	outcome atomic.Uint64 // packed; 0: not assigned yet
	n       atomic.Uint64
}

func (s *share) add(took time.Duration, in int) {
	i := 0
	for i < len(LatencyBounds) && took > LatencyBounds[i] {
		i++
	}
	s.took[i].Add(1)
	s.nanoseconds.Add(uint64(took))
	s.in.Add(uint64(in))
}

func (n *procCounts) answered(rep *oncrpc.Reply, hasStatus bool) {
	o := OutcomeOf(rep.Head, hasStatus)
	if o == (Outcome{}) {
		return
	}
	n.failed.add(o)
}

// outcomes counts failures by their outcome.
type outcomes struct {
	each      [maxOutcomes]outcomeCount
	otherwise atomic.Uint64 // with further outcomes
}

func (c *outcomes) add(o Outcome) {
	packed := o.pack()
	for i := range c.each {
		f := &c.each[i]
		was := f.outcome.Load()
		if was == 0 && !f.outcome.CompareAndSwap(0, packed) {
			was = f.outcome.Load()
		}
		if was == 0 || was == packed {
			f.n.Add(1)
			return
		}
	}
	c.otherwise.Add(1)
}

// OutcomeOf reads the outcome from the head of one of our own replies (RFC 5531, Section
// 9).
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
