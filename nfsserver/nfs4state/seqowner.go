package nfs4state

import (
	"container/list"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A seqKey identifies an owner of an NFSv4.0 client. Open-owners and lock-owners
// have separate name spaces (RFC 7530, Section 9.1).
type seqKey struct {
	name string
	lock bool
}

// A seqOwner is an open-owner or a lock-owner of an NFSv4.0 client. Its
// operations have sequence numbers and are serialized. The last reply is cached
// for a retry (RFC 7530, Section 9.1.7).
type seqOwner struct {
	key    seqKey
	client *client

	// turn is full while an operation runs. Only that operation may use reply
	// and handle.
	turn   chan struct{}
	reply  []byte // the last operation's results, from the status on
	handle []byte // the current filehandle after the last operation, if an OPEN

	confirmed atomic.Bool // by OPEN_CONFIRM, or none is needed

	// State.mu guards the rest.
	hasSeqID       bool // seqid is valid
	seqid          uint32
	op             nfs4.Op   // the operation with seqid
	principal      Principal // the last OPEN's
	userCount      int       // operations that have or wait for the turn
	useCount       int       // an open-owner's opens, or a lock-owner's lockSets
	sets           map[*lockSet]struct{}
	locks          int      // locks in sets
	onlyOpen       *Open    // an unconfirmed open-owner's only Open
	closedStateID  *holding // closed by the last operation: its stateid finds the reply
	closingStateID *holding // closed by the running operation
	cost           int      // what it counts for, in stateids of its group
	restElem       *list.Element
	restingSince   time.Duration // see restOwner
}

// Limits on a client's owners.
const (
	maxOwners  = 65536
	maxResting = 1024

	// maxInTurn bounds an owner's operations that have or wait for the turn. A
	// client sends them one at a time, so further ones are retries, and each
	// occupies a goroutine while the first one's storage hangs.
	maxInTurn = 16
)

// seqOwner returns a client's owner, and creates it if necessary. State.mu is
// held.
func (s *State) seqOwner(c *client, key seqKey, deferred *deferredWork) (*seqOwner, nfs4.Status) {
	if o := c.v40.owners[key]; o != nil {
		return o, nfs4.OK
	}
	cost := stateIDCost(len(key.name))
	switch {
	case len(c.v40.owners) >= maxOwners:
		return nil, nfs4.ErrResource // the client gains nothing by waiting
	case !s.ensureQuota(c.group, stateIDs, cost, deferred):
		return nil, nfs4.ErrDelay
	}
	s.addUsage(c.group, stateIDs, cost)
	o := &seqOwner{key: key, client: c, turn: make(chan struct{}, 1), cost: cost}
	o.confirmed.Store(key.lock)
	c.v40.owners[key] = o
	return o, nfs4.OK
}

// setUse sets an open-owner's number of opens, and the last OPEN's principal.
// State.mu is held.
func (o *seqOwner) setUse(opens int, p Principal) {
	openers := o.client.v40.openers
	if o.useCount > 0 {
		if openers[o.principal]--; openers[o.principal] == 0 {
			delete(openers, o.principal)
		}
	}
	if o.useCount, o.principal = opens, p; opens > 0 {
		if openers == nil {
			openers = make(map[Principal]int)
			o.client.v40.openers = openers
		}
		openers[p]++
	}
}

// A seqResult is the result of a sequence number comparison.
type seqResult uint8

const (
	seqNone  seqResult = iota // nothing to compare
	seqNext                   // a new operation
	seqRetry                  // the last operation again
	seqBad
)

// compareSeqID compares an operation's sequence number with the owner's. o may be nil.
func (o *seqOwner) compareSeqID(seqid uint32, op nfs4.Op) seqResult {
	switch {
	case o == nil || !o.hasSeqID:
		return seqNone
	case seqid == nextSeqID(o.seqid):
		return seqNext
	case seqid == o.seqid && op == o.op:
		return seqRetry
	}
	return seqBad
}

// advanceOwner advances the owner's sequence number, and caches the operation's
// reply. State.mu is held.
func (s *State) advanceOwner(o *seqOwner, op nfs4.Op, seqid uint32, reply []byte) {
	o.hasSeqID, o.op, o.seqid = true, op, seqid
	o.reply = append(o.reply[:0], reply...)
	cost := stateIDCost(len(o.key.name) + cap(o.reply))
	s.addUsage(o.client.group, stateIDs, cost-o.cost)
	o.cost = cost
	s.freeKeptStateID(o.closedStateID)
	o.closedStateID, o.closingStateID = o.closingStateID, nil
}

// freeKeptStateID removes a stateid that was kept after CLOSE. h may be nil.
// State.mu is held.
func (s *State) freeKeptStateID(h *holding) {
	if h != nil {
		s.holdings.remove(h.index, h.client.part)
		s.addUsage(h.client.group, stateIDs, -h.cost)
	}
}

// ConfirmOpen implements OPEN_CONFIRM for an object (RFC 7530, Section 16.18), in
// a Turn.
func (s *State) ConfirmOpen(session *Session, id *nfs4.StateID, key []byte) (nfs4.StateID, nfs4.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.findClientHolding(session, id)
	switch {
	case h != nil && h.open == nil:
		return nfs4.StateID{}, nfs4.ErrAdminRevoked
	case h == nil, h.locks != nil, h.closed.Load(), h.seqOwner.confirmed.Load(), h.open.Key != string(key):
		return nfs4.StateID{}, nfs4.ErrBadStateID
	}
	if status := h.checkSeqID(id.SeqID); status != nfs4.OK {
		return nfs4.StateID{}, status
	}
	h.seqOwner.confirmed.Store(true)
	h.bumpSeqID()
	return h.StateID(), nfs4.OK
}

// ConfirmOwner confirms the open-owner of an operation without OPEN_CONFIRM,
// because the Open was reclaimed (RFC 7530, Section 9.1.11).
func (s *State) ConfirmOwner(t *Turn) { t.open.confirmed.Store(true) }

// ReleaseLockOwner implements RELEASE_LOCKOWNER (RFC 7530, Section 16.37).
func (s *State) ReleaseLockOwner(session *Session, name []byte) nfs4.Status {
	var deferred deferredWork
	defer func() { s.runDeferred(deferred) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := seqKey{string(name), true}
	o := session.client.v40.owners[key]
	for o != nil {
		if o.locks > 0 || o.userCount > 0 { // or a LOCK or LOCKU is running
			return nfs4.ErrLocksHeld
		}
		for set := range o.sets {
			if s.mu.shouldPause() {
				break
			}
			s.mu.countEntry()
			s.endLocks(set, &deferred)
		}
		if len(o.sets) == 0 {
			s.forgetOwner(o, &deferred)
			return nfs4.OK
		}
		s.mu.pauseLocked()
		o = session.client.v40.owners[key]
	}
	return nfs4.OK
}

// stopResting removes an owner from the resting list. State.mu is held.
func (o *seqOwner) stopResting() {
	if o.restElem != nil {
		o.client.v40.resting.Remove(o.restElem)
		o.restElem = nil
	}
}

// restOwner adds an owner that no operation uses to the resting list, if it has
// neither opens nor lock stateids, or has not confirmed them. It is removed after
// restTime. State.mu is held.
func (s *State) restOwner(o *seqOwner, deferred *deferredWork) {
	c := o.client
	switch {
	case o.userCount > 0 || o.restElem != nil || c.ended, o.useCount > 0 && o.confirmed.Load():
		return
	case !o.hasSeqID:
		s.forgetOwner(o, deferred)
		return
	}
	o.restingSince = s.config.Now()
	o.restElem = c.v40.resting.PushBack(o)
	if c.v40.resting.Len() > maxResting {
		s.forgetOwner(c.v40.resting.Front().Value.(*seqOwner), deferred)
	}
}

// restTime returns the time that owners rest: a client may repeat its last
// operation until its lease expires (RFC 7530, Section 16.18.5).
func (s *State) restTime() time.Duration { return s.config.Lease + graceSlack }

// forgetRested removes a client's owners that have rested for restTime. State.mu
// is held.
func (s *State) forgetRested(c *client, deferred *deferredWork) {
	for e := c.v40.resting.Front(); e != nil; e = c.v40.resting.Front() {
		o := e.Value.(*seqOwner)
		if s.mu.shouldPause() || s.config.Now()-o.restingSince <= s.restTime() {
			return // the next Sweep continues
		}
		s.mu.countEntry()
		s.forgetOwner(o, deferred)
	}
}

// cancelUnconfirmed resets an unconfirmed open-owner's sequence, and closes its Open.
// State.mu is held.
func (s *State) cancelUnconfirmed(o *seqOwner, deferred *deferredWork) {
	o.hasSeqID = false
	if o.onlyOpen != nil {
		s.closeOpen(o.onlyOpen, deferred)
	}
}

// forgetOwner removes an owner, with its unconfirmed Open and its sequence.
// State.mu is held.
func (s *State) forgetOwner(o *seqOwner, deferred *deferredWork) {
	c := o.client
	if !o.key.lock {
		s.cancelUnconfirmed(o, deferred)
	}
	o.stopResting()
	if c.v40.owners[o.key] == o {
		delete(c.v40.owners, o.key)
		s.endOwner(o)
	}
}

// endOwners removes owners of a removed client until State.mu should be released, and
// reports whether none is left.
func (s *State) endOwners(c *client) bool {
	for key, o := range c.v40.owners {
		if s.mu.shouldPause() {
			return false
		}
		s.mu.countEntry()
		s.endOwner(o)
		delete(c.v40.owners, key)
	}
	return true
}

// endOwner releases the stateids that an owner keeps and counts for. State.mu
// is held.
func (s *State) endOwner(o *seqOwner) {
	s.freeKeptStateID(o.closedStateID)
	s.freeKeptStateID(o.closingStateID)
	s.addUsage(o.client.group, stateIDs, -o.cost)
}
