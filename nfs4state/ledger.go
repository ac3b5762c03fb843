package nfs4state

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Journal keeps records on stable storage, as a *journal.Journal does.
type Journal interface {
	// Append returns once records are on stable storage. After an error every
	// Append fails until Replace has succeeded.
	Append(records ...[]byte) error

	// Replace makes the records that the function returns the only ones. The
	// function does not wait for an Append.
	Replace(records func() [][]byte) error

	// Size returns the length of the journal in bytes.
	Size() int64
}

// A ledger writes down, ahead of the grants that depend on them, which clients
// have state. Changes of the State add records to the queue, which are counted.
// An OPEN or LOCK is granted when the records that it needs are on stable storage:
// that of the client, that of the end of a client that had the object, and those
// about rights to reclaim. So a record need not be taken back, nor a grant.
type ledger struct {
	journal Journal // nil: nothing is written

	// State.mu guards these.
	records map[ownerKey]record // the content of the journal, with the queue
	queue   [][]byte            // to be appended
	added   uint64              // records that have ever entered the queue
	stored  atomic.Uint64       // of these on stable storage
	ended   atomic.Bool         // nothing is written any more

	barrier uint64            // the last record about a right to reclaim
	denies  atomic.Uint64     // the last record of the end of deny modes
	freed   map[string]uint64 // by object: the record of the last client that lost state of it, if not yet stored

	// Of the records, those of clients that may reclaim, and of these, those
	// that had deny modes, locks, delegations, and delegations for writing.
	stale, staleDeny, staleLocks, staleDelegations, staleWrites int

	trusting   atomic.Bool   // see Trusted
	unknownEnd time.Duration // of Past.Unknown
	trusts     atomic.Uint64 // the last record of the end of a right to reclaim delegations

	mu      sync.Mutex
	writing chan struct{} // closed at the end of the write that runs; nil: none runs
	failing bool          // the last write failed, and Config.Stored knows
	retry   time.Duration // no write before, if the last one failed

	// The write that runs has these for itself.
	broken  bool  // the journal is to be replaced
	compact int64 // the Size at which the journal is replaced
}

// unsettled is the status, inside this package, of a call that can be granted
// once the queue is on stable storage.
const unsettled = ^nfs4.Status(0)

const (
	// patience is how long a call waits for the journal, whose disk may hang.
	patience = 5 * time.Second

	// retryEvery is how often a journal that fails is tried again.
	retryEvery = time.Second

	// minCompact is the shortest journal that is replaced by a shorter one.
	minCompact = 256 << 10

	// maxAppend is the length in bytes of the records of one Append.
	maxAppend = 512 << 10
)

// restore takes over the records of earlier States, and writes the beginning of
// this one. A client of whose state some was revoked may reclaim nothing, so its
// record means nothing any more, unless the client had delegations: it trusts the
// others until it learns of the restart, and changes must wait for that.
func (s *State) restore() {
	l := &s.ledger
	l.journal, l.records = s.config.Journal, make(map[ownerKey]record)
	if l.journal == nil {
		return
	}
	s.untold = make(map[ownerKey]struct{})
	for key, r := range s.config.Past.clients {
		if _, ok := machineOf(key); ok {
			s.untold[key] = struct{}{}
			if r.revoked { // it may reclaim nothing, but has to hear of the restart
				r.fresh = true
				s.setRecord(key, r)
				continue
			}
		}
		if r.revoked {
			r.over, r.had = true, r.had&hadDelegations
		}
		if !r.over || r.had != 0 {
			r.fresh = false
			s.setRecord(key, r)
		}
	}
	l.trusting.Store(l.staleDelegations > 0 || s.config.Past.Unknown)
	if s.config.Past.Unknown {
		l.unknownEnd = s.config.Now() + s.graceTime()
	}
	s.graceEnd = s.config.Now() + s.graceTime()
	l.broken = true           // the journal of another State is replaced
	l.added, l.barrier = 1, 1 // the boot record, which every replacement has
	l.freed = make(map[string]uint64)
	s.store()
}

// setRecord sets the record of a client in memory. State.mu is held.
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

// countStale adds n to the counts of the clients that may reclaim, if r is of
// one.
func (s *State) countStale(r record, n int) {
	if r.fresh {
		return
	}
	s.ledger.stale += n
	if r.had&hadDeny != 0 {
		s.ledger.staleDeny += n
		s.denying.Add(int64(n)) // until its opens are back
	}
	if r.had&hadLocks != 0 {
		s.ledger.staleLocks += n
	}
	if r.had&hadDelegations != 0 {
		s.ledger.staleDelegations += n
	}
	if r.had&hadWrites != 0 {
		s.ledger.staleWrites += n
	}
}

// note makes the record of a confirmed client say that the client has state of
// some kinds, and reports whether a grant of an object may follow at once. If
// not, the caller lets State.mu go, calls store, and begins again. State.mu is
// held.
func (s *State) note(c *client, had kinds, key string) (settled bool) {
	c.had |= had
	if r, ok := s.ledger.records[c.key]; !ok || r.fresh {
		s.write(c)
	} // else the grant is a reclaim, and the earlier record stands for it
	return s.ledger.stored.Load() >= c.noted && s.settled(key)
}

// settled reports whether all records are stored that anybody's grant of an
// object needs. State.mu is held.
func (s *State) settled(key string) bool {
	return s.ledger.stored.Load() >= max(s.ledger.barrier, s.ledger.freed[key])
}

// write writes the record of a confirmed client, if it has changed. State.mu is
// held.
func (s *State) write(c *client) {
	if s.ledger.journal == nil {
		return
	}
	now := record{
		principal: c.principal, host: c.host, minor: c.minor, had: c.had, fresh: true, revoked: len(c.revoked) > 0 || c.partial,
		sealed: c.protect.How == nfs4.ProtectMachCred,
	}
	r, ok := s.ledger.records[c.key]
	if ok && r == now {
		return
	}
	s.setRecord(c.key, now)
	c.noted = s.enqueue(now.appendTo(nil, c.key))
	if ok && !r.fresh {
		s.ledger.barrier = c.noted
		s.ledger.trusts.Store(c.noted)
	}
}

// strike writes that a client has no state any more. It returns the number of
// the record, or 0 if there was none of the client. State.mu is held.
func (s *State) strike(key ownerKey) uint64 {
	r, ok := s.ledger.records[key]
	if !ok {
		return 0
	}
	n := s.enqueue(appendGone(nil, key))
	if !r.fresh {
		s.ledger.barrier = n
		s.ledger.trusts.Store(n)
	}
	if r.had&hadDeny != 0 {
		s.ledger.denies.Store(n)
	}
	s.deleteRecord(key)
	return n
}

// owes reports whether a deny mode that has ended could be reclaimed after a
// crash.
func (l *ledger) owes() bool { return l.stored.Load() < l.denies.Load() }

// free makes grants of an object wait for a record. State.mu is held.
func (s *State) free(key string, record uint64) {
	if record > s.ledger.stored.Load() {
		s.ledger.freed[key] = record
	}
}

// enqueue adds a record to the queue, and returns its number. State.mu is held.
func (s *State) enqueue(record []byte) uint64 {
	l := &s.ledger
	if !l.ended.Load() {
		l.added++
		l.queue = append(l.queue, record)
	}
	return l.added
}

// settling calls try until its status is not unsettled, each time with the queue
// on stable storage. If the journal fails, the status is NFS4ERR_DELAY.
func (s *State) settling(try func() nfs4.Status) nfs4.Status {
	for {
		status := try()
		if status != unsettled {
			return status
		}
		if !s.store() {
			return nfs4.ErrDelay
		}
	}
}

// store puts the records that are in the queue at the call on stable storage,
// and reports whether they are there. No lock but hostFile.mu may be held.
func (s *State) store() bool {
	l := &s.ledger
	s.mu.Lock()
	want, ended := l.added, l.ended.Load()
	s.mu.Unlock()
	if ended || l.stored.Load() >= want {
		return true
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for l.stored.Load() < want {
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

// beginWrite begins to write the queue, unless a write runs already, and returns
// the channel that is closed at its end. It returns nil soon after a write that
// failed.
func (s *State) beginWrite() <-chan struct{} {
	l := &s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing != nil {
		return l.writing
	}
	if l.failing && s.config.Now() < l.retry {
		return nil
	}
	done := make(chan struct{})
	l.writing = done
	go func() {
		defer close(done)
		s.endWrite(s.flush())
	}()
	return done
}

// endWrite notes how a write has ended, and tells the administrator of a change.
func (s *State) endWrite(err error) {
	l := &s.ledger
	s.mu.Lock()
	for key, record := range l.freed {
		if record <= l.stored.Load() {
			delete(l.freed, key)
		}
	}
	s.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing, l.broken, l.retry = nil, err != nil, s.config.Now()+retryEvery
	if l.failing != l.broken {
		l.failing = l.broken
		if s.config.Stored != nil {
			s.config.Stored(err)
		}
	}
}

// flush appends the queue to the journal, or replaces the journal if that has
// failed or has become long.
func (s *State) flush() error {
	l := &s.ledger
	if !l.broken {
		s.mu.Lock()
		queue, upTo := l.queue, l.added
		l.queue = nil
		s.mu.Unlock()
		if l.append(queue) == nil {
			l.stored.Store(upTo)
			if l.journal.Size() < l.compact {
				return nil
			}
		}
	}
	return s.replace()
}

// append appends records in their order.
func (l *ledger) append(records [][]byte) error {
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

// replace writes all records anew: those of clients that may still reclaim, the
// beginning of this State, and those of clients with state.
func (s *State) replace() error {
	l := &s.ledger
	var upTo uint64
	err := l.journal.Replace(func() [][]byte {
		s.mu.Lock()
		defer s.mu.Unlock()
		l.queue, upTo = nil, l.added
		list := make([][]byte, 0, len(l.records)+1)
		add := func(fresh bool) {
			for key, r := range l.records {
				if r.fresh == fresh {
					list = append(list, r.appendTo(nil, key))
				}
			}
		}
		add(false)
		list = append(list, appendBoot(nil, s.config.Epoch, s.config.Lease))
		add(true)
		return list
	})
	if err != nil {
		return err
	}
	l.stored.Store(upTo)
	l.compact = max(minCompact, 4*l.journal.Size())
	return nil
}
