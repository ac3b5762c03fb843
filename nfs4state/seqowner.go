package nfs4state

import (
	"container/list"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A seqKey names an owner of a client of version 4.0. Open-owners and lock-owners
// are apart (RFC 7530, Section 9.1).
type seqKey struct {
	name string
	lock bool
}

// A seqOwner is an open-owner or a lock-owner of a client of version 4.0. Its
// operations have sequence numbers, and come one after the other: the last reply
// is kept for a retry (RFC 7530, Section 9.1.7).
type seqOwner struct {
	key    seqKey
	client *client

	// turn is full while an operation runs. The operation has reply and handle
	// for itself.
	turn   chan struct{}
	reply  []byte // of the last operation, from its status on
	handle []byte // that the last operation, an OPEN, has made the current one

	confirmed atomic.Bool // by OPEN_CONFIRM, or not in need of it

	// State.mu guards the rest.
	known     bool // has a sequence
	seqid     uint32
	op        nfs4.Op   // that had seqid
	principal Principal // of the last OPEN
	users     int       // operations that have the turn, or wait for it
	uses      int       // opens of an open-owner, lockSets of a lock-owner
	sets      map[*lockSet]struct{}
	opened    *Open    // of an open-owner that is not confirmed: its only one
	closed    *holding // by the last operation: its stateid finds the reply
	closing   *holding // by the operation that runs
	cost      int      // as stateids of its party
	rests     *list.Element
	since     time.Duration // its rest
}

// Bounds of the owners of a client.
const (
	maxOwners  = 65536
	maxResting = 1024

	// maxInTurn is how many operations of an owner wait, or have its turn. A client
	// sends one after the other, so that more than one or two are retries, and each
	// occupies a goroutine as long as the storage of the first does not answer.
	maxInTurn = 16
)

// seqOwner returns an owner of a client, made if there was none. State.mu is held.
func (s *State) seqOwner(c *client, key seqKey, gone *released) (*seqOwner, nfs4.Status) {
	if o := c.seq.owners[key]; o != nil {
		return o, nfs4.OK
	}
	cost := costOf(len(key.name))
	switch {
	case len(c.seq.owners) >= maxOwners:
		return nil, nfs4.ErrResource // the client gains nothing by waiting
	case !s.room(c.party, stateids, cost, gone):
		return nil, nfs4.ErrDelay
	}
	s.use(c.party, stateids, cost)
	o := &seqOwner{key: key, client: c, turn: make(chan struct{}, 1), cost: cost}
	o.confirmed.Store(key.lock)
	c.seq.owners[key] = o
	return o, nfs4.OK
}

// The results of a comparison of sequence numbers.
type seqResult uint8

const (
	seqNone  seqResult = iota // nothing to compare
	seqNext                   // a new operation
	seqRetry                  // the last one again
	seqBad
)

// compare compares the sequence number of an operation with the owner's. o may be
// nil.
func (o *seqOwner) compare(seqid uint32, op nfs4.Op) seqResult {
	switch {
	case o == nil || !o.known:
		return seqNone
	case seqid == after(o.seqid):
		return seqNext
	case seqid == o.seqid && op == o.op:
		return seqRetry
	}
	return seqBad
}

// advance keeps the reply of an owner's operation. State.mu is held.
func (s *State) advance(o *seqOwner, op nfs4.Op, seqid uint32, reply []byte) {
	o.known, o.op, o.seqid = true, op, seqid
	o.reply = append(o.reply[:0], reply...)
	cost := costOf(len(o.key.name) + cap(o.reply))
	s.use(o.client.party, stateids, cost-o.cost)
	o.cost = cost
	s.unkeep(o.closed)
	o.closed, o.closing = o.closing, nil
}

// unkeep ends a stateid that CLOSE has left, or none. State.mu is held.
func (s *State) unkeep(h *holding) {
	if h != nil {
		s.slab.remove(h.index)
		s.use(h.client.party, stateids, -h.cost)
	}
}

// ConfirmOpen is OPEN_CONFIRM for an object (RFC 7530, Section 16.18), in a Turn.
func (s *State) ConfirmOpen(session *Session, id *nfs4.StateID, key []byte) (nfs4.StateID, nfs4.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.find(session, id)
	switch {
	case h != nil && h.open == nil:
		return nfs4.StateID{}, nfs4.ErrAdminRevoked
	case h == nil, h.locks != nil, h.closed.Load(), h.seq.confirmed.Load(), h.open.Key != string(key):
		return nfs4.StateID{}, nfs4.ErrBadStateID
	}
	if status := h.compare(id.SeqID); status != nfs4.OK {
		return nfs4.StateID{}, status
	}
	h.seq.confirmed.Store(true)
	h.bump()
	return h.StateID(), nfs4.OK
}

// ConfirmOwner makes the open-owner of an Open one that needs no OPEN_CONFIRM,
// because the Open was reclaimed (RFC 7530, Section 9.1.11).
func (s *State) ConfirmOwner(t *Turn) { t.open.confirmed.Store(true) }

// ReleaseLockOwner is RELEASE_LOCKOWNER (RFC 7530, Section 16.37).
func (s *State) ReleaseLockOwner(session *Session, name []byte) nfs4.Status {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	o := session.client.seq.owners[seqKey{string(name), true}]
	if o == nil {
		return nfs4.OK
	}
	for set := range o.sets {
		if set.part.Len() > 0 {
			return nfs4.ErrLocksHeld
		}
	}
	if o.users > 0 {
		return nfs4.ErrLocksHeld // a LOCK or LOCKU runs
	}
	for set := range o.sets {
		s.endLocks(set, &gone)
	}
	s.forgetOwner(o, &gone)
	return nfs4.OK
}

// wake ends the rest of an owner. State.mu is held.
func (o *seqOwner) wake() {
	if o.rests != nil {
		o.client.seq.resting.Remove(o.rests)
		o.rests = nil
	}
}

// rest lets an owner rest that no operation uses, if it has no opens and no lock
// stateids, or has not confirmed them: it is forgotten after a while. State.mu is
// held.
func (s *State) rest(o *seqOwner, gone *released) {
	c := o.client
	switch {
	case o.users > 0 || o.rests != nil || c.ended, o.uses > 0 && o.confirmed.Load():
		return
	case !o.known:
		s.forgetOwner(o, gone)
		return
	}
	o.since = s.config.Now()
	o.rests = c.seq.resting.PushBack(o)
	if c.seq.resting.Len() > maxResting {
		s.forgetOwner(c.seq.resting.Front().Value.(*seqOwner), gone)
	}
}

// restTime returns how long owners rest: a client may repeat its last operation
// until the end of its lease (RFC 7530, Section 16.18.5).
func (s *State) restTime() time.Duration { return s.config.Lease + graceSlack }

// forgetRested forgets the owners of a client that have rested. State.mu is held.
func (s *State) forgetRested(c *client, gone *released) {
	for e := c.seq.resting.Front(); e != nil; e = c.seq.resting.Front() {
		o := e.Value.(*seqOwner)
		if s.config.Now()-o.since <= s.restTime() {
			return
		}
		s.forgetOwner(o, gone)
	}
}

// cancel ends the opens of an open-owner that has not confirmed them, and its
// sequence. State.mu is held.
func (s *State) cancel(o *seqOwner, gone *released) {
	o.known = false
	if o.opened != nil {
		s.closeOpen(o.opened, gone)
	}
}

// forgetOwner ends an owner with the opens that it has not confirmed, and its
// sequence. State.mu is held.
func (s *State) forgetOwner(o *seqOwner, gone *released) {
	c := o.client
	if !o.key.lock {
		s.cancel(o, gone)
	}
	o.wake()
	if c.seq.owners[o.key] == o {
		delete(c.seq.owners, o.key)
		s.endOwner(o)
	}
}

// endOwners ends the owners of a client that ends. State.mu is held.
func (s *State) endOwners(c *client) {
	for _, o := range c.seq.owners {
		s.endOwner(o)
	}
	c.seq.owners = nil
}

// endOwner gives back the memory that an owner counts for. State.mu is held.
func (s *State) endOwner(o *seqOwner) {
	s.unkeep(o.closed)
	s.unkeep(o.closing)
	s.use(o.client.party, stateids, -o.cost)
}
