package nfs4state

import (
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A Waiting is a lock-owner of a client that was denied a lock, and is willing to wait
// for the lock (RFC 8881, Sections 9.6 and 20.11). Such owners of a file form a queue:
// when the bytes become free, the first is told, and gets them if it asks again before
// anybody else does. If it does not ask within a quarter of the lease, the next one is
// told. That the owner is told is a hint, by which no bytes are kept for the owner.
type Waiting struct {
	name string
	open *Open

	// State.mu guards these.
	lock   Lock // as asked for last
	queued bool
	asked  time.Duration // the owner was denied the lock last
	turn   time.Duration // the owner was told, and may come until then; 0: it was not
	local  bool          // a process of the host was in the way
}

// Owner returns the name of the lock-owner.
func (w *Waiting) Owner() string { return w.name }

// maxWaiting bounds the owners that wait for locks of a file.
const maxWaiting = 2048

// turns is how many owners a lease has time for, one after the other.
const turns = 4

// wait makes the owner of a LOCK that was denied wait, or wait on, and returns the
// status of the LOCK. An owner for whom there is no room hears of nothing: that of a
// Machine gets NFS4ERR_DELAY, and others ask again all the same.
func (s *State) wait(session *Session, a *Lock, d *Denied) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := nfs4.ErrDenied
	if session.client.managed() {
		full = nfs4.ErrDelay
	}
	l, status := s.lockArgs(session, a)
	if status != nfs4.OK || l.open == nil || !l.open.notifies || session.client.ended {
		return full
	}
	name := string(a.Owner)
	if l.set != nil {
		name = l.set.owner.name
	}
	f := l.open.key.file
	i := slices.IndexFunc(f.waiting, func(w *Waiting) bool { return w.asks(session.client, name, a) })
	if a.For == nil && s.deadlock(&Waiting{name: name, open: l.open, lock: *a}) {
		if i >= 0 {
			s.stopWaiting(f.waiting[i])
		}
		return nfs4.ErrDeadlock
	}
	if i < 0 {
		if !s.mayWait(f, session.client, costOf(len(name))) {
			return full
		}
		i = len(f.waiting)
		w := &Waiting{name: name, open: l.open, queued: true}
		f.waiting = append(f.waiting, w)
		s.waiting[f] = struct{}{}
		if session.client.managed() {
			s.asking[w.owner()] = append(s.asking[w.owner()], w)
		}
		s.use(session.client.party, waitingOwners, costOf(len(name)))
	}
	w := f.waiting[i]
	w.lock, w.asked, w.turn = *a, s.config.Now(), 0
	w.lock.Owner, w.lock.Handle = nil, nil // of a message
	w.local = *d == s.hostDenied(d.Range, locks.KindOf(d.Exclusive))
	return nfs4.ErrDenied
}

// maxChain bounds the owners of which each waits for the next one, and maxAsked the locks
// for which one of them waits, and with both the work of deadlock.
const (
	maxChain = 10
	maxAsked = 64
)

// deadlock reports whether an owner of a Machine would wait for a lock of an owner that waits
// for it, directly or through others. Of several owners that are in the way
// of one, deadlock regards the first, as Linux does, and of many locks for which one owner
// waits those for which it has waited longest. Clients of version 4 are
// regarded as not waiting: they ask again and again, and can cease to.
func (s *State) deadlock(w *Waiting) bool {
	c := w.open.client
	if !c.managed() || c.locks == 0 {
		return false
	}
	first := w.owner()
	seen := []lockOwnerKey{first}
	for next := []*Waiting{w}; len(next) > 0; {
		w, next = next[0], next[1:]
		l, denied := w.open.key.file.locks.Conflict(w.holder(), w.lock.Range, w.lock.Exclusive)
		if !denied {
			continue
		}
		holder := l.Owner.Tag.(*lockOwner).lockOwnerKey
		switch {
		case holder == first:
			return true
		case len(seen) < maxChain && holder.client.managed() && !slices.Contains(seen, holder):
			seen = append(seen, holder)
			asks := s.asking[holder]
			next = append(next, asks[:min(len(asks), maxAsked)]...)
		}
	}
	return false
}

// owner returns the key of the owner.
func (w *Waiting) owner() lockOwnerKey { return lockOwnerKey{w.open.client, w.name} }

// mayWait reports whether an owner of a client may wait for a lock of f. As of other
// resources, a client gets at most as much as is free.
func (s *State) mayWait(f *file, c *client, cost int) bool {
	own := 1
	for _, w := range f.waiting {
		if w.open.client == c {
			own++
		}
	}
	return own <= maxWaiting-len(f.waiting) && s.mayUse(c.party, waitingOwners, cost)
}

// asks reports whether w is the owner that asks for a lock again.
func (w *Waiting) asks(c *client, name string, a *Lock) bool {
	return w.open.client == c && w.name == name && w.lock.Range == a.Range && w.lock.Exclusive == a.Exclusive
}

// stopWaiting removes w from its queue.
func (s *State) stopWaiting(w *Waiting) {
	f := w.open.key.file
	w.queued = false
	f.waiting = slices.DeleteFunc(f.waiting, func(o *Waiting) bool { return o == w })
	if asks := s.asking[w.owner()]; len(asks) > 1 {
		s.asking[w.owner()] = slices.DeleteFunc(asks, func(o *Waiting) bool { return o == w })
	} else {
		delete(s.asking, w.owner())
	}
	s.use(w.open.client.party, waitingOwners, -costOf(len(w.name)))
	if len(f.waiting) == 0 {
		f.waiting = nil
		delete(s.waiting, f)
	}
}

// came removes the owner of a lock that was granted from the queue.
func (s *State) came(f *file, c *client, name string, a *Lock) {
	if i := slices.IndexFunc(f.waiting, func(w *Waiting) bool { return w.asks(c, name, a) }); i >= 0 {
		s.stopWaiting(f.waiting[i])
	}
}

// leave removes the owners that wait through an Open, which ends.
func (s *State) leave(o *Open, gone *released) {
	for _, w := range slices.Clone(o.key.file.waiting) {
		if w.open == o {
			gone.frees(o.key.file) // the turn of another one may have come
			s.stopWaiting(w)
		}
	}
}

// frees notes that bytes of a file may have become free.
func (r *released) frees(f *file) {
	if len(f.waiting) > 0 && !slices.Contains(r.freed, f) {
		r.freed = append(r.freed, f)
	}
}

// wake tells the owners for whom the bytes of a file are free. No lock may be held.
func (s *State) wake(f *file) {
	s.mu.Lock()
	told := s.next(f)
	tell := make([]func(*Waiting), len(told)) // the owner may ask again meanwhile
	for i, w := range told {
		tell[i] = w.lock.Tell
	}
	s.mu.Unlock()
	for i, w := range told {
		tell[i](w)
	}
}

// next returns the owners whose turn it is now.
func (s *State) next(f *file) (told []*Waiting) {
	now := s.config.Now()
	var ahead []*Waiting
	for _, w := range slices.Clone(f.waiting) {
		switch {
		case w.turn > now:
			ahead = append(ahead, w)
			continue
		case w.open.client.managed(): // it waits until it is granted the lock, and need not ask
		case w.turn > 0, now-w.asked > 2*s.config.Lease: // the owner has given up
			s.stopWaiting(w)
			continue
		}
		if w.local || slices.ContainsFunc(ahead, w.conflicts) {
			continue
		}
		if _, denied := f.locks.Conflict(w.holder(), w.lock.Range, w.lock.Exclusive); denied {
			continue
		}
		w.turn = now + s.config.Lease/turns
		ahead, told = append(ahead, w), append(told, w)
	}
	return told
}

// firstInTurn returns the lock for which an owner of a Machine waits whose turn it is:
// that is granted before a later owner gets the bytes, which asks through an Open and is
// willing to wait.
func (f *file) firstInTurn(o *Open, a *Lock) (Denied, bool) {
	asks := Waiting{lock: *a, name: string(a.Owner), open: o}
	for _, w := range f.waiting {
		if w.turn > 0 && w.open.client.managed() && w.conflicts(&asks) {
			return Denied{w.lock.Range, w.lock.Exclusive, w.open.client.id, w.name, true}, true
		}
	}
	return Denied{}, false
}

// conflicts reports whether two owners cannot both have the locks that they wait for.
func (w *Waiting) conflicts(o *Waiting) bool {
	a, b := &w.lock, &o.lock
	return (a.Exclusive || b.Exclusive) && a.Range.Start <= b.Range.End && b.Range.Start <= a.Range.End &&
		(w.name != o.name || w.open.client != o.open.client)
}

// holder returns the owner's locks of the file, or nil.
func (w *Waiting) holder() *locks.Owner {
	if o := w.open.key.file.owners[lockOwnerKey{w.open.client, w.name}]; o != nil {
		return o.owner
	}
	return nil
}

// MayNotify reports whether owners that wait for locks through an Open are told of
// them: the client could be called back at an OPEN.
func (s *State) MayNotify(o *Open) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.notifies = o.notifies || o.client.callable()
	return o.notifies
}

// MayCome reports whether an owner that was told may still come.
func (s *State) MayCome(w *Waiting) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.queued && w.turn > s.config.Now()
}

// Waits reports whether any owner waits.
func (s *State) Waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > 0
}

// LooksAgain looks for locks that have become free with no call of a client: those of
// clients that are silent and of processes of the host, and those whose owner was
// told, and has not come. It reports whether any owner waits. The caller calls
// LooksAgain once a second while that is so.
func (s *State) LooksAgain() bool {
	var gone released
	s.mu.Lock()
	local := make(map[any][]*Waiting)
	for f := range s.waiting {
		for _, w := range slices.Clone(f.waiting) {
			switch {
			case !w.queued, w.turn > 0:
			case w.local:
				local[w.lock.Storage] = append(local[w.lock.Storage], w)
			default:
				s.denied(f, f.owners[lockOwnerKey{w.open.client, w.name}], w.open.client, w.lock.Range, w.lock.Exclusive, &gone)
			}
		}
		gone.frees(f)
	}
	for storage, list := range local {
		if _, busy := s.looking[storage]; !busy {
			s.looking[storage] = struct{}{}
			s.releasing.Go(func() { s.lookOnHost(storage, list) })
		}
	}
	s.mu.Unlock()
	s.give(gone)
	return s.Waits()
}

// lookOnHost looks whether processes of the host are still in the way of owners that
// wait for locks of objects of one storage.
func (s *State) lookOnHost(storage any, list []*Waiting) {
	for _, w := range list {
		s.mu.Lock()
		a := w.lock
		s.mu.Unlock()
		if s.lockedOnHost(&a) {
			continue
		}
		s.mu.Lock()
		w.local = false
		s.mu.Unlock()
		s.wake(w.open.key.file)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.looking, storage)
}

// lockedOnHost reports whether a process of the host is in the way of a lock.
func (s *State) lockedOnHost(a *Lock) bool {
	h := s.enterHost(a)
	defer s.leaveHost(h)
	if h.open(a) != nfs4.OK {
		return false // the client's LOCK says why
	}
	_, found, status := h.locks.TestLock(a.Range, locks.KindOf(a.Exclusive))
	return status == nfs4.OK && found != locks.None
}
