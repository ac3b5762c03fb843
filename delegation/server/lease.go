package server

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
)

// An fsLease is a lease from the file system for an object. The file system
// breaks a lease before another process changes the object. All grants for the
// object share one lease.
type fsLease struct {
	key       string
	answered  chan struct{} // closed when the file system has responded
	release   func()        // set when answered is closed
	users     int           // number of grants, and ACQUIREs in progress
	releasing bool          // the lease is being released, or is released
	released  chan struct{} // closed when the lease is released
}

// A leaseTable is the set of file system leases. Each is counted in holders
// until it is released.
type leaseTable struct {
	holders *recall.Table

	count atomic.Int64 // length of byKey

	mu    sync.Mutex
	byKey map[string]*fsLease
}

func (ls *leaseTable) hasLeases() bool { return ls.count.Load() > 0 }

// contains reports whether an object has a lease.
func (ls *leaseTable) contains(key []byte) bool {
	if !ls.hasLeases() {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.byKey[string(key)] != nil
}

// Lease makes the grant depend on a file system lease. take obtains the lease,
// and registers the function that the file system must call when the lease is
// broken, on any goroutine that may block. The error is take's.
func (s *PendingAcquire) Lease(take func(broken func()) (release func(), err error)) (delegation.Reason, error) {
	l, isNew, why := s.keeper.leases.addUser(s.key)
	if why != 0 {
		return why, nil
	}
	if isNew {
		release, err := take(func() { s.keeper.handleBrokenLease(l) })
		s.keeper.leases.recordAnswer(l, release)
		if err != nil {
			return 0, err
		}
	}
	s.lease, s.acquisition.Lien = l, l
	return 0, nil
}

// MakeRoom releases a file system lease whose grants are not in use, and
// reports whether it did (delegation.Grantor.MakeRoom). The caller must have
// been denied another lease by the file system. Several clients may have grants
// under one lease, so MakeRoom reclaims up to maxReclaims grants.
func (s *PendingAcquire) MakeRoom() bool {
	k := s.keeper
	before := k.leases.count.Load()
	for range maxReclaims {
		made, fx := k.grantor.MakeRoom(s.conn, k.currentTime())
		k.applyEffects(fx)
		if !made || k.leases.count.Load() < before {
			return made
		}
	}
	return false
}

// addUser adds a user to an object's lease. mine reports that there was no
// lease; the caller must then take the lease and call recordAnswer.
func (ls *leaseTable) addUser(key string) (l *fsLease, isNew bool, why delegation.Reason) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l = ls.byKey[key]; l != nil && l.releasing; l = ls.byKey[key] {
		ls.waitUnlocked(l.released)
	}
	switch {
	case l == nil:
		l = &fsLease{key: key, users: 1, answered: make(chan struct{}), released: make(chan struct{})}
		ls.byKey[key] = l
		ls.count.Add(1)
		ls.holders.AddObject([]byte(key))
		return l, true, 0
	case l.release == nil:
		return nil, false, delegation.ReasonContended
	}
	l.users++
	return l, false, 0
}

// waitUnlocked unlocks mu while it waits for done. The caller must hold mu.
func (ls *leaseTable) waitUnlocked(done <-chan struct{}) {
	ls.mu.Unlock()
	<-done
	ls.mu.Lock()
}

// recordAnswer records the file system's response: the lease's release
// function, or nil if there is no lease.
func (ls *leaseTable) recordAnswer(l *fsLease, release func()) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.release = release
	close(l.answered)
	if release == nil {
		ls.removeLease(l)
	}
}

// removeLease removes l. The caller must hold mu.
func (ls *leaseTable) removeLease(l *fsLease) {
	l.releasing = true
	delete(ls.byKey, l.key)
	ls.count.Add(-1)
	ls.holders.RemoveObject([]byte(l.key))
	close(l.released)
}

// removeUser removes a user of l, and releases the lease after the last.
func (ls *leaseTable) removeUser(l *fsLease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.users--; l.users == 0 {
		ls.releaseLease(l)
	}
}

// releaseForKey releases the lease, if any, for an object that is about to
// change.
func (ls *leaseTable) releaseForKey(key []byte) {
	if !ls.hasLeases() {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l := ls.byKey[string(key)]; l != nil; l = ls.byKey[string(key)] {
		switch {
		case l.release == nil:
			ls.waitUnlocked(l.answered) // the ACQUIRE is stale; its lease must be released first
		case l.releasing:
			ls.waitUnlocked(l.released)
		default:
			ls.releaseLease(l)
		}
	}
}

// releaseLease releases l, unless the release is already in progress. The file
// system may be slow, so releaseLease unlocks mu during the release; the caller
// must hold mu. l remains in byKey until it is released, and goroutines that
// find it before that wait.
func (ls *leaseTable) releaseLease(l *fsLease) {
	if l.releasing {
		return
	}
	l.releasing = true
	ls.mu.Unlock()
	l.release()
	ls.mu.Lock()
	ls.removeLease(l)
}

// handleBrokenLease starts a change on behalf of the process that broke the
// lease. That process waits until the lease is released.
func (k *Keeper) handleBrokenLease(l *fsLease) {
	ch := newLocalChange()
	defer k.grantor.Done(&ch.change)
	for !k.beginChange(&ch.change, nil, []byte(l.key)) {
		select {
		case <-ch.woken:
		case <-k.stopping:
			return
		}
	}
}
