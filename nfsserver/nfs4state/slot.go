package nfs4state

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A slot executes one call after another, each exactly once (RFC 8881, Section
// 2.10.6.1).
type slot struct {
	sequence    uint32
	digest      uint64
	generation  uint64 // see slotTable
	hasExecuted bool   // has executed a call
	running     bool
	reply       []byte // the last call's, if kept
	hasReply    bool
	retry       *pendingRetry // a retry that waits for the running call
}

// uncachedLimit is the maximum length of a reply that is cached without
// sa_cachethis, in bytes: most replies to changes are that short, and their
// retries then need no second execution.
const uncachedLimit = 512

// A Sequenced holds the arguments of SEQUENCE, and facts about the call.
type Sequenced struct {
	Slot, Sequence, Highest uint32

	// Digest covers the call without its bulk data, and its principal: two
	// calls with the same sequence ID and different digests are not retries.
	Digest uint64

	Conn any // is bound to the fore channel
}

// A sequenceOutcome says how to continue a call after SEQUENCE. Exactly one field is
// set, except Joined and Limits.
type sequenceOutcome struct {
	Status nfs4.Status   // the status of SEQUENCE, if not OK; nothing was changed
	New    bool          // execute the call, then call End; Limits is also set
	Replay []byte        // send this reply
	Retry  *pendingRetry // wait for the running call

	// Uncached: the call was executed, but its reply was not cached. SEQUENCE
	// succeeds, and the next operation is NFS4ERR_RETRY_UNCACHED_REP.
	Uncached bool

	// Joined: this call has bound the connection to the session.
	Joined bool

	Limits SlotLimits
}

// Begin implements SEQUENCE (RFC 8881, Section 18.46). Success renews the client's
// lease and binds the connection to the fore channel, unless that requires the
// client's machine credential; an error changes nothing.
func (s *State) Begin(session *Session, a *Sequenced) (o sequenceOutcome) {
	session.mu.Lock()
	defer session.mu.Unlock()
	dir, bound, status := session.checkCall(a)
	if status == nfs4.OK && session.needsSlots(a) {
		session.mu.Unlock()
		s.addSlots(session, a.Slot)
		session.mu.Lock()
		dir, bound, status = session.checkCall(a)
	}
	if status != nfs4.OK {
		return sequenceOutcome{Status: status}
	}
	sl := &session.slots[a.Slot]
	switch {
	case sl.isNewCall(a.Sequence) && session.retireSlot(a.Slot):
		return sequenceOutcome{Status: nfs4.ErrBadSlot}
	case sl.isNewCall(a.Sequence):
		session.noteUse(a)
		sl.beginCall(a)
		session.running++
		o.New, o.Limits = true, session.slotLimits()
	case a.Sequence != sl.sequence || !sl.hasExecuted:
		o.Status = nfs4.ErrSeqMisordered
	case sl.running:
		if sl.retry != nil {
			sl.retry.setOutcome(sequenceOutcome{Status: nfs4.ErrDelay}) // only the newest retry waits
		}
		sl.retry = &pendingRetry{done: make(chan struct{}), digest: a.Digest}
		o.Retry = sl.retry
	default:
		o = sl.retryOutcome(a.Digest)
	}
	if o.Status != nfs4.OK {
		return o
	}
	if !o.New { // the lease does not matter while the call is running, and End renews it
		session.renewedAt = max(session.renewedAt, s.config.Now())
	}
	if dir&nfs4.BindFore == 0 {
		session.setDirections(a.Conn, dir|nfs4.BindFore)
	}
	o.Joined = !bound
	return o
}

// checkCall returns the status of SEQUENCE apart from its slot's state, and the directions of the
// call's connection, if it is bound. The caller holds s.mu.
func (s *Session) checkCall(a *Sequenced) (dir uint32, bound bool, status nfs4.Status) {
	switch {
	case s.dead:
		return 0, false, nfs4.ErrBadSession
	case a.Slot >= uint32(len(s.slots)):
		return 0, false, nfs4.ErrBadSlot
	case a.Highest >= uint32(len(s.slots)):
		return 0, false, nfs4.ErrBadHighSlot
	}
	dir, bound = s.connDirections(a.Conn)
	switch {
	case !bound && s.client.protect.MustEnforce.HasOp(nfs4.OpBindConnToSession):
		status = nfs4.ErrConnNotBoundToSession
	case !bound && len(s.conns) >= maxConns:
		status = nfs4.ErrDelay
	}
	return dir, bound, status
}

// beginCall begins a new call.
func (sl *slot) beginCall(a *Sequenced) {
	sl.sequence, sl.digest, sl.hasExecuted = a.Sequence, a.Digest, true
	sl.running, sl.hasReply = true, false
	if cap(sl.reply) > uncachedLimit {
		sl.reply = nil // memory for short replies is reused
	}
}

// retryOutcome returns the outcome for a retry of the last call, which has finished.
// The reply is a copy, because the next call overwrites the slot's.
func (sl *slot) retryOutcome(digest uint64) sequenceOutcome {
	switch {
	case digest != sl.digest:
		return sequenceOutcome{Status: nfs4.ErrSeqFalseRetry}
	case !sl.hasReply:
		return sequenceOutcome{Uncached: true}
	}
	return sequenceOutcome{Replay: append([]byte{}, sl.reply...)}
}

// End finishes a slot's call. reply is the reply from its COMPOUND results on;
// End copies it. keep says that a reply of any length must be cached
// (sa_cachethis). item says that the reply has a data item outside reply: such a
// reply is never cached. End renews the client's lease.
func (s *Session) End(slot uint32, reply []byte, keep, item bool) {
	now := s.state.config.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := &s.slots[slot]
	sl.running = false
	s.running--
	s.renewedAt = max(s.renewedAt, now)
	if !item && (keep || len(reply) <= uncachedLimit) {
		if cap(sl.reply) < len(reply) {
			const step = 128 // avoids an allocation for each slightly longer reply
			sl.reply = make([]byte, 0, (len(reply)+step-1)/step*step)
		}
		sl.reply, sl.hasReply = append(sl.reply[:0], reply...), true
	}
	if r := sl.retry; r != nil {
		sl.retry = nil
		r.setOutcome(sl.retryOutcome(r.digest))
	}
}

// A pendingRetry waits for the reply to the call that the client repeats.
// NFS4ERR_DELAY at once, as RFC 8881 proposes in Section 2.10.6.2, would delay
// a Linux client by 15 seconds.
type pendingRetry struct {
	digest  uint64
	done    chan struct{} // closed when outcome is set
	outcome sequenceOutcome
}

func (r *pendingRetry) setOutcome(o sequenceOutcome) {
	r.outcome = o
	close(r.done)
}

// Wait waits for the reply, and returns an outcome without New and Retry. If a
// newer retry arrives, the outcome is NFS4ERR_DELAY. An error means that ctx
// was cancelled because the connection was closed.
func (r *pendingRetry) Wait(ctx context.Context) (sequenceOutcome, error) {
	select {
	case <-r.done:
		return r.outcome, nil
	case <-ctx.Done():
		return sequenceOutcome{}, context.Cause(ctx)
	}
}
