package nfs4state

import (
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

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
