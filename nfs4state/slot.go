package nfs4state

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A slot executes one call after another, each exactly once (RFC 8881, Section
// 2.10.6.1).
type slot struct {
	sequence uint32
	digest   uint64
	used     bool // has executed a call
	running  bool
	reply    []byte // of the last call, if kept
	kept     bool
	retry    *Retry // waits for the running call
}

// uncachedLimit is the length in bytes of the longest reply that is kept
// without sa_cachethis: most changes are that short, and their retries then
// need no second execution.
const uncachedLimit = 512

// A Sequenced is the arguments of SEQUENCE, and facts about the call.
type Sequenced struct {
	Slot, Sequence, Highest uint32

	// Digest is of the call without its bulk data, and of its principal: two
	// calls with one sequence ID and different digests are no retries.
	Digest uint64

	Conn any // joins the fore channel
}

// An Outcome is the way on for a call after SEQUENCE. Exactly one of its fields
// is set besides Joined.
type Outcome struct {
	Status nfs4.Status // of SEQUENCE, if not OK; nothing was changed
	New    bool        // execute the call, then call End
	Replay []byte      // answer with this reply
	Retry  *Retry      // wait for the call that runs

	// Uncached: the call was executed, but its reply was not kept. SEQUENCE
	// succeeds, and the next operation is NFS4ERR_RETRY_UNCACHED_REP.
	Uncached bool

	// Joined: this call has bound the connection to the session.
	Joined bool
}

// Begin is SEQUENCE (RFC 8881, Section 18.46). Success renews the client's
// lease and binds the connection to the fore channel, unless only the client's machine
// credential may do that; an error changes nothing.
func (s *State) Begin(session *Session, a *Sequenced) (o Outcome) {
	session.mu.Lock()
	defer session.mu.Unlock()
	switch {
	case session.dead:
		return Outcome{Status: nfs4.ErrBadSession}
	case a.Slot >= uint32(len(session.slots)):
		return Outcome{Status: nfs4.ErrBadSlot}
	case a.Highest >= uint32(len(session.slots)):
		return Outcome{Status: nfs4.ErrBadHighSlot}
	}
	dir, bound := session.directions(a.Conn)
	switch {
	case !bound && session.client.protect.MustEnforce.HasOp(nfs4.OpBindConnToSession):
		return Outcome{Status: nfs4.ErrConnNotBoundToSession}
	case !bound && len(session.conns) >= maxConns:
		return Outcome{Status: nfs4.ErrDelay}
	}
	sl := &session.slots[a.Slot]
	switch {
	case a.Sequence == sl.sequence+1 && !sl.running:
		sl.begin(a)
		session.running++
		o.New = true
	case a.Sequence != sl.sequence || !sl.used:
		o.Status = nfs4.ErrSeqMisordered
	case sl.running:
		if sl.retry != nil {
			sl.retry.settle(Outcome{Status: nfs4.ErrDelay}) // only the newest retry waits
		}
		sl.retry = &Retry{done: make(chan struct{}), digest: a.Digest}
		o.Retry = sl.retry
	default:
		o = sl.again(a.Digest)
	}
	if o.Status != nfs4.OK {
		return o
	}
	if !o.New { // the lease is not looked at while the call runs, and End renews it
		session.used = max(session.used, s.config.Now())
	}
	if dir&nfs4.BindFore == 0 {
		session.bind(a.Conn, dir|nfs4.BindFore)
	}
	o.Joined = !bound
	return o
}

// begin begins a new call.
func (sl *slot) begin(a *Sequenced) {
	sl.sequence, sl.digest, sl.used = a.Sequence, a.Digest, true
	sl.running, sl.kept = true, false
	if cap(sl.reply) > uncachedLimit {
		sl.reply = nil // memory for short replies is used again
	}
}

// again returns the outcome of a retry of the last call, which has ended. The
// reply is a copy, because the next call overwrites the slot's.
func (sl *slot) again(digest uint64) Outcome {
	switch {
	case digest != sl.digest:
		return Outcome{Status: nfs4.ErrSeqFalseRetry}
	case !sl.kept:
		return Outcome{Uncached: true}
	}
	return Outcome{Replay: append([]byte{}, sl.reply...)}
}

// End ends the call of a slot. reply is the whole reply from its compound
// results on; End copies the reply. keep says that a reply of any length must be
// kept (sa_cachethis). item says that the reply has a data item outside of reply:
// such a reply is never kept. The client's lease runs from now.
func (s *Session) End(slot uint32, reply []byte, keep, item bool) {
	now := s.state.config.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := &s.slots[slot]
	sl.running = false
	s.running--
	s.used = max(s.used, now)
	if !item && (keep || len(reply) <= uncachedLimit) {
		if cap(sl.reply) < len(reply) {
			const step = 128 // not a new allocation for each reply that is a little longer
			sl.reply = make([]byte, 0, (len(reply)+step-1)/step*step)
		}
		sl.reply, sl.kept = append(sl.reply[:0], reply...), true
	}
	if r := sl.retry; r != nil {
		sl.retry = nil
		r.settle(sl.again(r.digest))
	}
}

// A Retry waits for the reply of the call that the client repeats. Answering
// NFS4ERR_DELAY at once, as RFC 8881 proposes in Section 2.10.6.2, would cost a
// Linux client 15 seconds.
type Retry struct {
	digest  uint64
	done    chan struct{} // closed when outcome is set
	outcome Outcome
}

func (r *Retry) settle(o Outcome) {
	r.outcome = o
	close(r.done)
}

// Wait waits for the reply, and returns an Outcome without New and Retry. If a
// newer retry comes, the outcome is NFS4ERR_DELAY. An error means that ctx has
// ended, and with ctx the connection.
func (r *Retry) Wait(ctx context.Context) (Outcome, error) {
	select {
	case <-r.done:
		return r.outcome, nil
	case <-ctx.Done():
		return Outcome{}, context.Cause(ctx)
	}
}
