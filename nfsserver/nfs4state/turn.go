package nfs4state

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Turn is an NFSv4.0 operation that has sequence numbers of one or two
// owners. After BeginTurn, the caller must call EndTurn.
type Turn struct {
	// Op, and StateID or (for OPEN) Owner, identify the owner of SeqID: an
	// open-owner or, for LOCKU and LOCK, a lock-owner. LOCK with New also has
	// Owner, a lock-owner with the number LockSeqID; SeqID is then the
	// open-owner's.
	Op        nfs4.Op
	StateID   nfs4.StateID
	New       bool
	Owner     []byte
	SeqID     uint32
	LockSeqID uint32

	Principal Principal

	// Aside, if not nil, is called before the operation waits for another.
	Aside interface{ StepAside() }

	// Confirm says that the open-owner of an OPEN needs OPEN_CONFIRM.
	Confirm bool

	// Refused is the status with which the operation must fail at once, unless it
	// is OK: the new lock-owner of a LOCK exceeds a limit.
	Refused nfs4.Status

	// Reply is the reply to an earlier call if this one is its retry. The
	// operation must only return it. Handle, unless empty, is then the current
	// filehandle. Both are valid until EndTurn.
	Reply, Handle []byte

	open, lock *seqOwner
}

// BeginTurn waits for the turn of the operation's owners, and checks its sequence
// numbers. ctx is the connection's context.
func (s *State) BeginTurn(ctx context.Context, session *Session, t *Turn) nfs4.Status {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	if status := s.joinTurn(session, t, &deferred); status != nfs4.OK {
		return status
	}
	for i, o := range [...]*seqOwner{t.open, t.lock} {
		if o == nil {
			continue
		}
		if !o.awaitTurn(ctx, t) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if i == 1 && t.open != nil {
				<-t.open.turn
			}
			s.leaveTurn(t, &deferred)
			return nfs4.ErrDelay // the connection is closed
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.checkSeqIDs(t, &deferred)
	if status != nfs4.OK {
		t.releaseTurns()
		s.leaveTurn(t, &deferred)
	}
	return status
}

// awaitTurn waits for the owner's turn. It returns false if the connection was
// closed.
func (o *seqOwner) awaitTurn(ctx context.Context, t *Turn) bool {
	select {
	case o.turn <- struct{}{}:
		return true
	default:
	}
	if t.Aside != nil {
		t.Aside.StepAside()
	}
	select {
	case o.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// releaseTurns releases the owners' turns.
func (t *Turn) releaseTurns() {
	for _, o := range [...]*seqOwner{t.open, t.lock} {
		if o != nil {
			<-o.turn
		}
	}
}

// joinTurn finds an operation's owners, and creates new ones.
func (s *State) joinTurn(session *Session, t *Turn, deferred *deferredWork) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	var named *seqOwner
	if t.Op != nfs4.OpOpen {
		h := s.findClientHolding(session, &t.StateID)
		if h == nil || h.seqOwner == nil || h.seqOwner.key.lock != (t.Op == nfs4.OpLockU || t.Op == nfs4.OpLock && !t.New) {
			return nfs4.ErrBadStateID
		}
		named = h.seqOwner
	}
	var status nfs4.Status
	switch {
	case t.Op == nfs4.OpOpen:
		named, status = s.seqOwner(c, seqKey{string(t.Owner), false}, deferred)
		t.open = named
	case named.key.lock:
		t.lock = named
	default:
		t.open = named
	}
	switch {
	case status != nfs4.OK:
		return status
	case named.userCount >= maxInTurn:
		return nfs4.ErrResource // this status does not use up the number
	case t.Op == nfs4.OpLock && t.New: // the open-owner's number counts in any case
		t.lock, t.Refused = s.seqOwner(c, seqKey{string(t.Owner), true}, deferred)
		if t.lock != nil && t.lock.userCount >= maxInTurn {
			t.lock, t.Refused = nil, nfs4.ErrResource
		}
	}
	for _, o := range [...]*seqOwner{t.open, t.lock} {
		if o != nil {
			o.userCount++
			o.stopResting()
		}
	}
	return nfs4.OK
}

// leaveTurn ends an operation's use of its owners. State.mu is held.
func (s *State) leaveTurn(t *Turn, deferred *deferredWork) {
	for _, o := range [...]*seqOwner{t.open, t.lock} {
		if o != nil {
			o.userCount--
			s.restOwner(o, deferred)
		}
	}
}

// checkSeqIDs compares an operation's sequence numbers with its owners' (RFC 7530,
// Section 9.1.9). State.mu is held.
func (s *State) checkSeqIDs(t *Turn, deferred *deferredWork) nfs4.Status {
	if t.open != nil && !t.open.confirmed.Load() {
		switch {
		case t.Op == nfs4.OpOpen: // replaces an earlier one that was not confirmed
			s.cancelUnconfirmed(t.open, deferred)
		case t.Op != nfs4.OpOpenConfirm:
			return nfs4.ErrBadStateID
		case t.SeqID != nextSeqID(t.open.seqid):
			s.cancelUnconfirmed(t.open, deferred)
			return nfs4.ErrBadSeqID
		}
	}
	opened, locked := t.open.compareSeqID(t.SeqID, t.Op), t.lock.compareSeqID(t.lockSeqID(), t.Op)
	switch {
	case opened == seqBad || locked == seqBad,
		opened == seqNext && locked == seqRetry, opened == seqRetry && locked == seqNext:
		return nfs4.ErrBadSeqID
	case opened == seqRetry:
		t.Reply, t.Handle = t.open.reply, t.open.handle
	case locked == seqRetry:
		t.Reply = t.lock.reply
	case t.Op == nfs4.OpOpen:
		t.Confirm = !t.open.confirmed.Load()
	}
	return nfs4.OK
}

// lockSeqID returns the lock-owner's sequence number.
func (t *Turn) lockSeqID() uint32 {
	if t.open == nil {
		return t.SeqID
	}
	return t.LockSeqID
}

// EndTurn ends an operation with its status. reply is its encoded results from
// the status on, and handle the current filehandle after an OPEN. Both are
// copied. A status that does not use up the sequence number changes nothing.
func (s *State) EndTurn(t *Turn, status nfs4.Status, reply, handle []byte) {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Reply == nil && usesSeqID(status) {
		if t.open != nil && (t.open.hasSeqID || status == nfs4.OK) {
			s.advanceOwner(t.open, t.Op, t.SeqID, reply)
			t.open.handle = append(t.open.handle[:0], handle...)
		}
		if t.Op == nfs4.OpOpen && status == nfs4.OK {
			t.open.setUse(t.open.useCount, t.Principal)
		}
		if t.lock != nil && (t.lock.hasSeqID || status == nfs4.OK) {
			s.advanceOwner(t.lock, t.Op, t.lockSeqID(), reply)
		}
		if h := s.lookupHolding(&t.StateID); status == nfs4.ErrAdminRevoked && h != nil && h.open == nil {
			s.freeRevoked(h) // no FREE_STATEID follows
		}
	}
	t.releaseTurns()
	s.leaveTurn(t, &deferred)
}

// usesSeqID reports whether a status uses up the sequence number (RFC 7530,
// Section 9.1.7).
func usesSeqID(status nfs4.Status) bool {
	switch status {
	case nfs4.ErrStaleClientID, nfs4.ErrStaleStateID, nfs4.ErrBadStateID, nfs4.ErrBadSeqID, nfs4.ErrBadXDR, nfs4.ErrResource,
		nfs4.ErrNoFileHandle, nfs4.ErrMoved:
		return false
	}
	return true
}
