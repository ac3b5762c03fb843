package nfs4state

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Journal stores records on stable storage. *journal.Journal implements it.
type Journal interface {
	// Append returns when records are on stable storage. After an error every
	// Append fails until Replace has succeeded.
	Append(records ...[]byte) error

	// Replace replaces all records by those that the function returns. The
	// function does not wait for an Append.
	Replace(records func() [][]byte) error

	// Size returns the length of the journal in bytes.
	Size() int64
}

// A ledger is a write-ahead log that says which clients have state. Changes of
// the State add numbered records to the queue. An OPEN or LOCK is granted when
// the records that it depends on are stable: the client's record, the removal
// record for a client that had the object, and those about rights to reclaim. So
// neither records nor grants need to be rolled back.
type ledger struct {
	journal Journal // nil: nothing is written

	// State.mu guards these.
	records       map[ownerKey]record // the content of the journal and the queue
	queue         [][]byte            // to be appended
	addedRecords  uint64              // number of records ever added to the queue
	storedRecords atomic.Uint64       // number of those that are stable
	retired       atomic.Bool         // nothing more is written

	reclaimBarrier uint64            // the last record about a right to reclaim
	denyBarrier    atomic.Uint64     // the last record that ends deny modes
	freedObjects   map[string]uint64 // by object: the record of the last client that lost state of it, if not yet stored

	// The number of clients that may reclaim, and of those with deny modes,
	// locks, delegations, and write delegations.
	staleClients, staleDeny, staleLocks, staleDelegations, staleWrites int

	mayTrust     atomic.Bool   // see Trusted
	unknownEnd   time.Duration // if Past.Unknown: when clients no longer trust delegations
	trustBarrier atomic.Uint64 // the last record that ends a right to reclaim delegations

	mu        checkedMutex[leafRank]
	writeDone chan struct{} // closed when the current write ends; nil: no write is running
	failing   bool          // the last write failed, and Config.Stored knows
	retryAt   time.Duration // no write before, if the last write failed

	// Only the current write uses these.
	broken    bool  // the journal must be replaced
	compactAt int64 // the Size at which the journal is replaced
}

// statusNotStored is an internal status. The call can be granted when the queue is
// stable.
const statusNotStored = ^nfs4.Status(0)

const (
	// journalTimeout is the time that a call waits for the journal, whose disk may
	// hang.
	journalTimeout = 5 * time.Second

	// retryEvery is the interval between attempts to write to a failing
	// journal.
	retryEvery = time.Second

	// minCompact is the minimum size of a journal that is compacted, in bytes.
	minCompact = 256 << 10

	// maxAppend is the maximum length of the records in one Append, in bytes.
	maxAppend = 512 << 10
)

// restoreRecords adopts the records of earlier States, and writes the boot record. A
// client that lost state by revocation may reclaim nothing, so its record is dropped,
// unless the client had delegations: it trusts these until it learns of the restart,
// and changes must wait until then.
func (s *State) restoreRecords() {
	l := &s.ledger
	l.journal, l.records = s.config.Journal, make(map[ownerKey]record)
	s.restoreCounters()
	if l.journal == nil {
		return
	}
	s.unnotified, s.reclaimers = make(map[ownerKey]struct{}), make(map[Machine]ownerKey)
	for key, r := range s.config.Past.clients {
		if m, ok := machineOf(key); ok {
			s.unnotified[key] = struct{}{}
			if r.revoked { // it may reclaim nothing, but must be notified of the restart
				r.current = true
				s.setRecord(key, r)
				continue
			}
			s.reclaimers[m.withoutLocal()] = key
		}
		if r.revoked {
			r.onlyTrusts, r.kinds = true, r.kinds&hadDelegations
		}
		if !r.onlyTrusts || r.kinds != 0 {
			r.current = false
			s.setRecord(key, r)
		}
	}
	l.mayTrust.Store(l.staleDelegations > 0 || s.config.Past.Unknown)
	if s.config.Past.Unknown {
		l.unknownEnd = s.config.Now() + s.graceTime()
	}
	s.graceEnd = s.config.Now() + s.graceTime()
	l.broken = true                         // another State's journal is replaced
	l.addedRecords, l.reclaimBarrier = 1, 1 // the boot record, which every replacement has
	l.freedObjects = make(map[string]uint64)
	s.storeQueue()
}

// setRecord sets a client's record in memory. State.mu is held.
func (s *State) setRecord(key ownerKey, r record) {
	s.deleteRecord(key)
	s.ledger.records[key] = r
	s.countStale(r, 1)
}

func (s *State) deleteRecord(key ownerKey) {
	if r, ok := s.ledger.records[key]; ok {
		delete(s.ledger.records, key)
		s.countStale(r, -1)
	}
}

// countStale adds n to the counts of clients that may reclaim, if r is such a
// client's record.
func (s *State) countStale(r record, n int) {
	if r.current {
		return
	}
	s.ledger.staleClients += n
	if r.kinds&hadDeny != 0 {
		s.ledger.staleDeny += n
		s.denyingOpens.Add(int64(n)) // until its opens are reclaimed
	}
	if r.kinds&hadLocks != 0 {
		s.ledger.staleLocks += n
	}
	if r.kinds&hadDelegations != 0 {
		s.ledger.staleDelegations += n
	}
	if r.kinds&hadWrites != 0 {
		s.ledger.staleWrites += n
	}
}

// recordState adds kinds of state to the record of a confirmed client or a Machine. If the object cannot be
// granted at once, the status is statusNotStored: the caller unlocks the State, calls
// storeQueue, and starts again. It may also be statusNeedsState. The holder is locked.
func (s *State) recordState(by *holder, had stateKinds, key string, h *hold) nfs4.Status {
	by.hadKinds |= had
	by.unusedKinds &^= had | anyState
	if key, r, ok := s.reclaimRecord(by); ok && key != by.key {
		if !h.isWhole() {
			return statusNeedsState
		}
		s.moveRecord(by, key, r)
	}
	// A grant to a client whose record is not current is a reclaim, which that record covers.
	if r, ok := s.ledger.records[by.key]; s.ledger.journal != nil && (!ok || r.current) {
		switch now := by.newRecord(); {
		case ok && r == now:
		case !h.isWhole():
			return statusNeedsState
		default:
			s.replaceRecord(by, now)
		}
	}
	if s.ledger.storedRecords.Load() < by.lastRecord || !s.recordsStored(key) {
		return statusNotStored
	}
	return nfs4.OK
}

// recordsStored reports whether all records are stable that a grant of an object
// to any client depends on. State.mu is held.
func (s *State) recordsStored(key string) bool {
	return s.ledger.storedRecords.Load() >= max(s.ledger.reclaimBarrier, s.ledger.freedObjects[key])
}

// writeRecord writes a holder's record, if it has changed. State.mu is held.
func (s *State) writeRecord(h *holder) {
	now := h.newRecord()
	if r, ok := s.ledger.records[h.key]; s.ledger.journal != nil && (!ok || r != now) {
		s.replaceRecord(h, now)
	}
}

// newRecord returns a holder's record as it should be.
func (h *holder) newRecord() record {
	r := record{kinds: h.hadKinds, current: true, revoked: h.partlyReclaimed}
	if m := h.machine; m != nil {
		_, unaware := m.state.unnotified[h.key] // it may reclaim what it had before the restart
		r.revoked = r.revoked || unaware
	}
	if c := h.client; c != nil {
		r.principal, r.host, r.minor, r.sealed = c.principal, c.host, c.minor, c.protect.How == nfs4.ProtectMachCred
		r.revoked = r.revoked || len(c.revoked)+c.revoking > 0
	}
	return r
}

// replaceRecord writes a holder's record. State.mu is held.
func (s *State) replaceRecord(h *holder, now record) {
	r, ok := s.ledger.records[h.key]
	s.setRecord(h.key, now)
	h.lastRecord = s.enqueueRecord(now.appendTo(nil, h.key))
	if ok && !r.current {
		s.ledger.reclaimBarrier = h.lastRecord
		s.ledger.trustBarrier.Store(h.lastRecord)
	}
}

// trimRecord removes kinds of state from a client's record that the client no longer has:
// others would wait for it after a restart. If lazily, it removes only kinds that were
// already unused at the last call, because a kind that is needed again delays a grant by a
// write. A client that may still reclaim keeps its record. State.mu is held.
func (s *State) trimRecord(c *client, lazily bool) {
	r, ok := s.ledger.records[c.key]
	if !ok || !r.current {
		return
	}
	unused := c.hadKinds &^ c.presentKinds()
	if !c.hasReclaimableState() {
		unused |= anyState
	}
	last := c.unusedKinds
	c.unusedKinds = unused
	if lazily {
		unused &= last
	}
	switch {
	case unused&anyState != 0:
		c.hadKinds = 0
		s.recordClientGone(c.key)
	case unused != 0:
		c.hadKinds &^= unused
		s.writeRecord(&c.holder)
	}
}

// presentKinds returns the kinds of state that c has.
func (c *client) presentKinds() (has stateKinds) {
	if c.denyOpens > 0 {
		has |= hadDeny
	}
	if c.locks > 0 {
		has |= hadLocks
	}
	if c.writeDelegations > 0 {
		has |= hadWrites
	}
	if len(c.delegations) > c.writeDelegations {
		has |= hadReads
	}
	return has
}

// recordClientGone records that a client no longer has state. It returns the record's
// number, or 0 if the client had no record. State.mu is held.
func (s *State) recordClientGone(key ownerKey) uint64 {
	r, ok := s.ledger.records[key]
	if !ok {
		return 0
	}
	n := s.enqueueRecord(appendGone(nil, key))
	if !r.current {
		s.ledger.reclaimBarrier = n
		s.ledger.trustBarrier.Store(n)
	}
	if r.kinds&hadDeny != 0 {
		s.ledger.denyBarrier.Store(n)
	}
	s.deleteRecord(key)
	return n
}

// hasUnstoredDenies reports whether an ended deny mode could still be reclaimed after a
// crash.
func (l *ledger) hasUnstoredDenies() bool { return l.storedRecords.Load() < l.denyBarrier.Load() }

// holdGrants delays grants of an object until a record is stable. State.mu is
// held.
func (s *State) holdGrants(key string, record uint64) {
	if record > s.ledger.storedRecords.Load() {
		s.ledger.freedObjects[key] = record
	}
}

// enqueueRecord adds a record to the queue, and returns its number. State.mu is held.
func (s *State) enqueueRecord(record []byte) uint64 {
	l := &s.ledger
	if !l.retired.Load() {
		l.addedRecords++
		l.queue = append(l.queue, record)
	}
	return l.addedRecords
}
