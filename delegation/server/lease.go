package server

import (
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// An fsLease is a lease from the file system for an object. The file system
// breaks a lease before another process changes the object. All grants for the
// object share one lease.
type fsLease struct {
	key       string
	release   func()        // set when the file system has responded
	users     []*heldObject // grants, and ACQUIREs in progress
	broken    bool          // another process waits for the release
	releasing bool          // the lease is being released, or is released
	released  chan struct{} // closed when the lease is released
}

// A leaseTable is the set of file system leases.
type leaseTable struct {
	mu    sync.Mutex
	byKey map[string]*fsLease
}

// Lease makes the grant depend on a file system lease. take obtains the lease,
// and registers the function that the file system must call when the lease is
// broken, on any goroutine that may block. The error is take's.
func (s *PendingAcquire) Lease(take func(broken func()) (release func(), err error)) (delegation.Reason, error) {
	leases := &s.keeper.leases
	l, isNew, why := leases.addUser(s.object, s.key)
	if why != 0 {
		return why, nil
	}
	if isNew {
		release, err := take(func() { leases.breakLease(l) })
		leases.recordAnswer(l, release)
		if err != nil {
			return 0, err
		}
	}
	s.object.lease, s.acquisition.Lien = l, true
	return 0, nil
}

// MakeRoom releases a file system lease whose grants are not in use, and
// reports whether it did (delegation.Grantor.MakeRoom). The caller must have
// been denied another lease by the file system. Several clients may have grants
// under one lease, so MakeRoom reclaims up to maxReclaims grants.
func (s *PendingAcquire) MakeRoom() bool {
	k := s.keeper
	before := k.leases.countLeases()
	for range maxReclaims {
		made, fx := k.grantor.MakeRoom(s.conn, k.currentTime())
		k.applyEffects(fx)
		if !made || k.leases.countLeases() < before {
			return made
		}
	}
	return false
}

func (ls *leaseTable) countLeases() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.byKey)
}

// addUser adds a user to an object's lease. isNew reports that there was no
// lease; the caller must then take the lease and call recordAnswer.
func (ls *leaseTable) addUser(o *heldObject, key string) (l *fsLease, isNew bool, why delegation.Reason) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l = ls.byKey[key]; l != nil && l.releasing; l = ls.byKey[key] {
		ls.mu.Unlock()
		<-l.released
		ls.mu.Lock()
	}
	switch {
	case l == nil:
		l = &fsLease{key: key, released: make(chan struct{})}
		ls.byKey[key] = l
		isNew = true
	case l.release == nil || l.broken:
		return nil, false, delegation.ReasonContended
	}
	l.users = append(l.users, o)
	return l, isNew, 0
}

// recordAnswer records the file system's response: the lease's release
// function, or nil if there is no lease.
func (ls *leaseTable) recordAnswer(l *fsLease, release func()) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.release = release
	if release == nil {
		ls.removeLease(l)
	}
}

// removeLease removes l. The caller must hold mu.
func (ls *leaseTable) removeLease(l *fsLease) {
	l.releasing = true
	delete(ls.byKey, l.key)
	close(l.released)
}

// removeUser removes a user of its lease, and releases the lease after the
// last. The file system may be slow, so removeUser does not hold mu during the
// release. The lease remains in byKey until it is released, and an ACQUIRE that
// finds it before that waits.
func (ls *leaseTable) removeUser(o *heldObject) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := o.lease
	l.users = slices.DeleteFunc(l.users, func(other *heldObject) bool { return other == o })
	if len(l.users) > 0 {
		return
	}
	l.releasing = true
	ls.mu.Unlock()
	l.release()
	ls.mu.Lock()
	ls.removeLease(l)
}

// breakLease recalls all grants under a lease that the file system breaks for a
// process. That process waits until the lease is released. No further grant
// uses the lease.
func (ls *leaseTable) breakLease(l *fsLease) {
	ls.mu.Lock()
	l.broken = true
	users := slices.Clone(l.users)
	ls.mu.Unlock()
	for _, o := range users {
		o.Break()
	}
}
