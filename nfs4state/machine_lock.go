package nfs4state

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/locks"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// lockArgsOf is lockArgs for a Machine, and opens the object for its locks if that
// is not open yet. State.mu is held.
func (s *State) lockArgsOf(c *client, a *Lock) (l lockable, status nfs4.Status) {
	if a.For != nil && !a.For.queued {
		return l, nfs4.ErrBadStateID
	}
	if l.open, status = s.openFor(c, lockOpener, a.Key, a.Handle, a.File); status == nfs4.OK {
		l.owner = l.open.key.file.owners[lockOwnerKey{c, string(a.Owner)}]
		l.set = l.open.locks[l.owner]
	}
	return l, status
}

// Release unlocks bytes of an object for an owner of a session's Machine, and removes
// the owner from the queue for these bytes. It takes Owner, Key and Range of the
// arguments. NFS4ERR_DELAY says that the Machine has too many locks to split one.
func (s *State) Release(session *Session, a *Lock) nfs4.Status {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	f := s.files[a.Key]
	if c.ended || f == nil {
		return nfs4.OK
	}
	for _, w := range slices.Clone(f.waiting) {
		if w.open.client == c && w.name == string(a.Owner) && w.lock.Range == a.Range {
			s.stopWaiting(w)
			gone.frees(f)
		}
	}
	defer s.tidy(c, a.Key, &gone)
	o := c.opens[openKey{owner: lockOpener, file: f}]
	if o == nil {
		return nfs4.OK
	}
	set := o.locks[f.owners[lockOwnerKey{c, string(a.Owner)}]]
	if set == nil {
		return nfs4.OK
	}
	return s.unlockSet(set, a, &gone)
}

// GiveBack takes a lock back that was granted to a Waiting, which does not want it any
// more: the bytes are locked again as they were before, as Lock.Before has them.
func (s *State) GiveBack(session *Session, a *Lock) {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	f := s.files[a.Key]
	if c.ended || f == nil {
		return
	}
	defer s.tidy(c, a.Key, &gone)
	o := c.opens[openKey{owner: lockOpener, file: f}]
	if o == nil {
		return
	}
	set := o.locks[f.owners[lockOwnerKey{c, string(a.Owner)}]]
	if set == nil {
		return
	}
	before := set.owner.owner.Len()
	set.owner.owner.Unlock(a.Range)
	for _, l := range a.Before {
		set.part.Lock(l.Range, l.Exclusive)
	}
	s.countLocks(c, set.owner.owner.Len()-before)
	gone.frees(f)
	s.unlockHost(a.Key, &gone, func(yield func(locks.Range) bool) { yield(a.Range) })
}

// StopWaiting removes an owner of a session's Machine from the queue for a lock. It
// returns false if the owner does not wait for that lock.
func (s *State) StopWaiting(session *Session, a *Lock) bool {
	var gone released
	defer func() { s.give(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := session.client
	f := s.files[a.Key]
	if f == nil {
		return false
	}
	i := slices.IndexFunc(f.waiting, func(w *Waiting) bool { return w.asks(c, string(a.Owner), a) })
	if i < 0 {
		return false
	}
	s.stopWaiting(f.waiting[i])
	gone.frees(f)
	s.tidy(c, a.Key, &gone)
	return true
}
