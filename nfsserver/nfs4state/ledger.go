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
	s.unnotified = make(map[ownerKey]struct{})
	for key, r := range s.config.Past.clients {
		if _, ok := machineOf(key); ok {
			s.unnotified[key] = struct{}{}
			if r.revoked { // it may reclaim nothing, but must be notified of the restart
				r.current = true
				s.setRecord(key, r)
				continue
			}
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
		r.revoked = r.revoked || len(c.revoked) > 0
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

// A yieldingCall is a call that may have to wait for the journal, whose disk may hang: it
// releases resources that other calls need.
type yieldingCall interface {
	// StepAside is called before the wait. It releases the resources.
	StepAside()

	// Resume is called after the wait. If its status is not NFS4_OK, the call fails
	// with that status.
	Resume() nfs4.Status
}

// storeAside calls storeQueue between call.StepAside and call.Resume. call may
// be nil.
func (s *State) storeAside(call yieldingCall) nfs4.Status {
	if call != nil {
		call.StepAside()
	}
	stored, status := s.storeQueue(), nfs4.OK
	if call != nil {
		status = call.Resume()
	}
	if status == nfs4.OK && (!stored || s.ledger.retired.Load()) {
		return nfs4.ErrDelay // a retired State stores nothing more
	}
	return status
}

// retryUntilStored calls try, as retryWhole does, until its status is neither statusNotStored nor
// statusEnding.
// Before each retry it stores the queue, or removes the state of removed clients. If the
// journal fails, the status is NFS4ERR_DELAY. call may be nil.
func (s *State) retryUntilStored(call yieldingCall, try func(whole bool) nfs4.Status) nfs4.Status {
	for {
		status := retryWhole(try)
		switch {
		case status == statusEnding:
			s.endAllState()
			s.awaitSteppedLock()
		case status != statusNotStored:
			return status
		default:
			if status := s.storeAside(call); status != nfs4.OK {
				return status
			}
		}
	}
}

// storeQueue waits until the records that are now in the queue are stable, and
// reports whether they are. No mutex except hostFile.mu may be held.
func (s *State) storeQueue() bool {
	l := &s.ledger
	s.mu.Lock()
	want, ended := l.addedRecords, l.retired.Load()
	s.mu.Unlock()
	if ended || l.storedRecords.Load() >= want {
		return true
	}
	late := time.NewTimer(journalTimeout)
	defer late.Stop()
	for l.storedRecords.Load() < want {
		done := s.beginWrite()
		if done == nil {
			return false
		}
		select {
		case <-done:
		case <-late.C:
			return false
		}
	}
	return true
}

// beginWrite starts to write the queue, unless a write is running, and returns
// the channel that is closed when the write ends. It returns nil for retryEvery
// after a failed write.
func (s *State) beginWrite() <-chan struct{} {
	l := &s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writeDone != nil {
		return l.writeDone
	}
	if l.failing && s.config.Now() < l.retryAt {
		return nil
	}
	done := make(chan struct{})
	l.writeDone = done
	go func() {
		defer close(done)
		s.endWrite(s.flushQueue())
	}()
	return done
}

// endWrite records the result of a write, and calls Config.Stored when the
// journal begins or ceases to fail.
func (s *State) endWrite(err error) {
	l := &s.ledger
	s.mu.Lock()
	for key, record := range l.freedObjects {
		s.mu.pauseLocked()
		if record <= l.storedRecords.Load() {
			delete(l.freedObjects, key)
		}
	}
	s.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeDone, l.broken, l.retryAt = nil, err != nil, s.config.Now()+retryEvery
	if l.failing != l.broken {
		l.failing = l.broken
		if s.config.Stored != nil {
			s.config.Stored(err)
		}
	}
}

// flushQueue appends the queue to the journal, or replaces the journal if it has
// failed or has become too long.
func (s *State) flushQueue() error {
	l := &s.ledger
	if !l.broken {
		s.mu.Lock()
		queue, upTo := l.queue, l.addedRecords
		l.queue = nil
		s.mu.Unlock()
		if l.appendRecords(queue) == nil {
			l.storedRecords.Store(upTo)
			if l.journal.Size() >= l.compactAt {
				s.compactJournal()
			}
			return nil
		}
	}
	_, err := s.replaceJournal()
	return err
}

// compactJournal replaces a journal that has become too long. Without space for a second
// file, the journal continues to grow.
func (s *State) compactJournal() {
	l := &s.ledger
	queue, err := s.replaceJournal()
	if err == nil {
		return
	}
	l.compactAt = l.journal.Size() + minCompact
	s.mu.Lock()
	defer s.mu.Unlock()
	l.queue = append(queue, l.queue...)
}

// appendRecords appends records in order.
func (l *ledger) appendRecords(records [][]byte) error {
	for len(records) > 0 {
		n, size := 0, 0
		for n < len(records) && (n == 0 || size+len(records[n]) <= maxAppend) {
			size += len(records[n])
			n++
		}
		if err := l.journal.Append(records[:n]...); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

// replaceJournal rewrites all records: those of clients that may still reclaim, the boot
// record, the lease of counter grants, and those of clients with state. After an error, it
// returns the records that it has removed from the queue. A record that changes between two steps
// is in the queue, too, which is appended later.
func (s *State) replaceJournal() (queue [][]byte, err error) {
	l := &s.ledger
	var upTo uint64
	err = l.journal.Replace(func() [][]byte {
		s.mu.Lock()
		defer s.mu.Unlock()
		queue, l.queue, upTo = l.queue, nil, l.addedRecords
		list := make([][]byte, 0, len(l.records)+2)
		add := func(fresh bool) {
			for key, r := range l.records {
				s.mu.pauseLocked()
				if r.current == fresh {
					list = append(list, r.appendTo(nil, key))
				}
			}
		}
		add(false)
		list = append(list, appendBoot(nil, s.config.Epoch, s.config.Lease))
		if lease := s.counters.lease; lease > 0 {
			list = append(list, AppendCounters(nil, lease))
		}
		add(true)
		return list
	})
	if err != nil {
		return queue, err
	}
	l.storedRecords.Store(upTo)
	l.compactAt = max(minCompact, 4*l.journal.Size())
	return nil, nil
}
