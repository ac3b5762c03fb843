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
// have state. Changes of the State add records to the queue; no OPEN or LOCK is
// granted before all records of the queue are on stable storage. So a record need
// not be taken back, nor a grant.
type ledger struct {
	journal Journal // nil: nothing is written

	// State.mu guards these.
	records map[ownerKey]record // the content of the journal, with the queue
	queue   [][]byte            // to be appended
	added   uint64              // records that have ever entered the queue
	stored  atomic.Uint64       // of these on stable storage; ledger.mu guards it against another writer
	ended   bool                // nothing is written any more

	// Of the records, those of clients that may reclaim, and of these, those
	// that had deny modes and locks.
	stale, staleDeny, staleLocks int

	mu      sync.Mutex  // held during writes, and taken before State.mu
	broken  bool        // the last write failed: the journal is to be replaced
	failing atomic.Bool // the same, for Config.Stored and Counts
	retry   time.Duration
	compact int64 // the Size at which the journal is replaced
}

// unsettled is the status, inside this package, of a call that can be granted
// once the queue is on stable storage.
const unsettled = ^nfs4.Status(0)

const (
	// retryEvery is how often a journal that fails is tried again.
	retryEvery = time.Second

	// minCompact is the shortest journal that is replaced by a shorter one.
	minCompact = 256 << 10

	// maxAppend is the length in bytes of the records of one Append.
	maxAppend = 512 << 10
)

// restore takes over the records of earlier States, and writes the beginning of
// this one. A client of whose state some was revoked may reclaim nothing, so its
// record means nothing any more.
func (s *State) restore() {
	l := &s.ledger
	l.journal, l.records = s.config.Journal, make(map[ownerKey]record)
	if l.journal == nil {
		return
	}
	for key, r := range s.config.Past.clients {
		if !r.revoked {
			r.fresh = false
			s.setRecord(key, r)
		}
	}
	s.graceEnd = s.config.Now() + s.graceTime()
	l.broken = true // the journal of another State is replaced
	l.added = 1     // the boot record, which every replacement has
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
}

// note makes the record of a confirmed client say that the client has state of
// some kinds, and reports whether the grant may follow at once. If not, the
// caller lets State.mu go, calls store, and begins again. State.mu is held.
func (s *State) note(c *client, had kinds) (settled bool) {
	c.had |= had
	if r, ok := s.ledger.records[c.key]; !ok || r.fresh {
		s.write(c)
	} // else the grant is a reclaim, and the earlier record stands for it
	return s.settled()
}

// write writes the record of a confirmed client, if it has changed. State.mu is
// held.
func (s *State) write(c *client) {
	if s.ledger.journal == nil {
		return
	}
	now := record{principal: c.principal, minor: c.minor, had: c.had, fresh: true, revoked: len(c.revoked) > 0}
	if r, ok := s.ledger.records[c.key]; !ok || r != now {
		s.setRecord(c.key, now)
		s.enqueue(now.appendTo(nil, c.key))
	}
}

// strike writes that a client has no state any more. State.mu is held.
func (s *State) strike(key ownerKey) {
	if _, ok := s.ledger.records[key]; ok {
		s.deleteRecord(key)
		s.enqueue(appendGone(nil, key))
	}
}

// enqueue adds a record to the queue. State.mu is held.
func (s *State) enqueue(record []byte) {
	if !s.ledger.ended {
		s.ledger.added++
		s.ledger.queue = append(s.ledger.queue, record)
	}
}

// settled reports whether all records are on stable storage. State.mu is held.
func (s *State) settled() bool { return s.ledger.stored.Load() == s.ledger.added }

// settling calls try, with the queue on stable storage, until its status is not
// unsettled. If the journal fails, the status is NFS4ERR_DELAY.
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
	want, ended := l.added, l.ended
	s.mu.Unlock()
	if ended || l.stored.Load() >= want {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stored.Load() >= want:
		return true // with another call's records
	case l.broken && s.config.Now() < l.retry:
		return false
	}
	err := s.flush()
	l.broken = err != nil
	if l.broken {
		l.retry = s.config.Now() + retryEvery
	}
	if l.failing.Swap(l.broken) != l.broken && s.config.Stored != nil {
		s.config.Stored(err)
	}
	return l.stored.Load() >= want
}

// flush appends the queue to the journal, or replaces the journal if that has
// failed or has become long. The caller holds ledger.mu.
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
// beginning of this State, and those of clients with state. The caller holds
// ledger.mu.
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
