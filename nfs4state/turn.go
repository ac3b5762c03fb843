package nfs4state

import (
	"context"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Turn is an operation of version 4.0 that has sequence numbers of one or two
// owners. After BeginTurn, EndTurn must follow.
type Turn struct {
	// Op, and StateID or for OPEN Owner, tell the owner of SeqID: an open-owner or
	// for LOCKU and LOCK a lock-owner. LOCK with New has Owner too, a lock-owner
	// with the number LockSeqID; SeqID is then that of the open-owner.
	Op        nfs4.Op
	StateID   nfs4.StateID
	New       bool
	Owner     []byte
	SeqID     uint32
	LockSeqID uint32

	Principal Principal

	// Aside, if not nil, hears that the operation is about to wait for another.
	Aside interface{ StepAside() }

	// Confirm says that the open-owner of an OPEN needs OPEN_CONFIRM.
	Confirm bool

	// Refused is the status with which the operation must fail at once, unless it
	// is OK: the new lock-owner of a LOCK has no room.
	Refused nfs4.Status

	// Reply is the reply of an earlier call, of which this one is a retry. The
	// operation has nothing to do but to answer with it. Handle, unless empty,
	// is then the current filehandle. Both are valid until EndTurn.
	Reply, Handle []byte

	open, lock *seqOwner
}

// BeginTurn waits for the turn of the operation's owners, and checks its sequence
// numbers. ctx is the connection's.
func (s *State) BeginTurn(ctx context.Context, session *Session, t *Turn) nfs4.Status {
	var gone released
	defer func() { s.give(gone) }()
	if status := s.join(session, t, &gone); status != nfs4.OK {
		return status
	}
	for i, o := range [...]*seqOwner{t.open, t.lock} {
		if o == nil {
			continue
		}
		if !o.wait(ctx, t) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if i == 1 && t.open != nil {
				<-t.open.turn
			}
			s.part(t, &gone)
			return nfs4.ErrDelay // nobody hears it
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.check(t, &gone)
	if status != nfs4.OK {
		t.yield()
		s.part(t, &gone)
	}
	return status
}

// wait takes the owner's turn. It returns false if the connection has ended.
func (o *seqOwner) wait(ctx context.Context, t *Turn) bool {
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

// yield gives the turns of the owners back.
func (t *Turn) yield() {
	for _, o := range [...]*seqOwner{t.open, t.lock} {
		if o != nil {
			<-o.turn
		}
	}
}

// join finds the owners of an operation, and makes those that are new.
func (s *State) join(session *Session, t *Turn, gone *released) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	var named *seqOwner
	if t.Op != nfs4.OpOpen {
		h := s.find(session, &t.StateID)
		if h == nil || h.seq == nil || h.seq.key.lock != (t.Op == nfs4.OpLockU || t.Op == nfs4.OpLock && !t.New) {
			return nfs4.ErrBadStateID
		}
		named = h.seq
	}
	var status nfs4.Status
	switch {
	case t.Op == nfs4.OpOpen:
		named, status = s.seqOwner(c, seqKey{string(t.Owner), false}, gone)
		t.open = named
	case named.key.lock:
		t.lock = named
	default:
		t.open = named
	}
	switch {
	case status != nfs4.OK:
		return status
	case named.users >= maxInTurn:
		return nfs4.ErrResource // which does not use up the number
	case t.Op == nfs4.OpLock && t.New: // the number of the open-owner counts in any case
		t.lock, t.Refused = s.seqOwner(c, seqKey{string(t.Owner), true}, gone)
		if t.lock != nil && t.lock.users >= maxInTurn {
			t.lock, t.Refused = nil, nfs4.ErrResource
		}
	}
	for _, o := range [...]*seqOwner{t.open, t.lock} {
		if o != nil {
			o.users++
			o.wake()
		}
	}
	return nfs4.OK
}

// part ends an operation's use of its owners. State.mu is held.
func (s *State) part(t *Turn, gone *released) {
	for _, o := range [...]*seqOwner{t.open, t.lock} {
		if o != nil {
			o.users--
			s.rest(o, gone)
		}
	}
}

// check compares the sequence numbers of an operation with those of its owners
// (RFC 7530, Section 9.1.9). State.mu is held.
func (s *State) check(t *Turn, gone *released) nfs4.Status {
	if t.open != nil && !t.open.confirmed.Load() {
		switch {
		case t.Op == nfs4.OpOpen: // in place of an earlier one, which nobody has confirmed
			s.cancel(t.open, gone)
		case t.Op != nfs4.OpOpenConfirm:
			return nfs4.ErrBadStateID
		case t.SeqID != after(t.open.seqid):
			s.cancel(t.open, gone)
			return nfs4.ErrBadSeqID
		}
	}
	opened, locked := t.open.compare(t.SeqID, t.Op), t.lock.compare(t.lockSeqID(), t.Op)
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

// lockSeqID returns the sequence number of the lock-owner.
func (t *Turn) lockSeqID() uint32 {
	if t.open == nil {
		return t.SeqID
	}
	return t.LockSeqID
}

// EndTurn ends an operation with its status. reply is its results from the status
// on, and handle the current filehandle after an OPEN. Both are copied. A status
// with which the client does not go on to the next number changes nothing.
func (s *State) EndTurn(t *Turn, status nfs4.Status, reply, handle []byte) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Reply == nil && advances(status) {
		if t.open != nil && (t.open.known || status == nfs4.OK) {
			s.advance(t.open, t.Op, t.SeqID, reply)
			t.open.handle = append(t.open.handle[:0], handle...)
		}
		if t.Op == nfs4.OpOpen && status == nfs4.OK {
			t.open.principal = t.Principal
		}
		if t.lock != nil && (t.lock.known || status == nfs4.OK) {
			s.advance(t.lock, t.Op, t.lockSeqID(), reply)
		}
		if h := s.at(&t.StateID); status == nfs4.ErrAdminRevoked && h != nil && h.open == nil {
			s.freeRevoked(h) // no FREE_STATEID follows
		}
	}
	t.yield()
	s.part(t, &gone)
}

// advances reports whether a client goes on to the next sequence number after a
// status (RFC 7530, Section 9.1.7).
func advances(status nfs4.Status) bool {
	switch status {
	case nfs4.ErrStaleClientID, nfs4.ErrStaleStateID, nfs4.ErrBadStateID, nfs4.ErrBadSeqID, nfs4.ErrBadXDR, nfs4.ErrResource,
		nfs4.ErrNoFileHandle, nfs4.ErrMoved:
		return false
	}
	return true
}
