package server

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// A lease is a lease that the file system has given for an object. The file
// system breaks a lease before another process changes the object. All grants of
// the object share one lease.
type lease struct {
	key     string
	settled chan struct{} // closed when the file system has answered
	release func()        // set when settled is closed
	users   int           // grants, and ACQUIREs under way
	ending  bool          // the lease is being released, or gone
	ended   chan struct{} // closed when the lease is gone
}

// leases is the set of leases of the file system.
type leases struct {
	n atomic.Int64 // length of byKey

	mu    sync.Mutex
	byKey map[string]*lease
}

func (ls *leases) any() bool { return ls.n.Load() > 0 }

// Lease makes the grant depend on a lease of the file system. take obtains the
// lease, and passes on the function that the file system must call when the
// lease is broken, on any goroutine that may wait. The error is take's.
func (s *Asking) Lease(take func(broken func()) (release func(), err error)) (delegation.Reason, error) {
	l, mine, why := s.k.leases.join(s.key)
	if why != 0 {
		return why, nil
	}
	if mine {
		release, err := take(func() { s.k.broken(l) })
		s.k.leases.finish(l, release)
		if err != nil {
			return 0, err
		}
	}
	s.lease, s.a.Lien = l, l
	return 0, nil
}

// MakeRoom makes the file system release a lease whose grants are not in use,
// and reports whether it did (delegation.Grantor.MakeRoom). The caller needs
// room because the file system refuses another lease. Several clients may have
// grants under one lease, so MakeRoom reclaims up to maxReclaims grants.
func (s *Asking) MakeRoom() bool {
	k := s.k
	before := k.leases.n.Load()
	for range maxReclaims {
		made, fx := k.g.MakeRoom(s.conn, k.now())
		k.do(fx)
		if !made || k.leases.n.Load() < before {
			return made
		}
	}
	return false
}

// join adds a user to the lease of an object. mine reports that there was no
// lease; the caller must then take the lease and call finish.
func (ls *leases) join(key string) (l *lease, mine bool, why delegation.Reason) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l = ls.byKey[key]; l != nil && l.ending; l = ls.byKey[key] {
		ls.wait(l.ended)
	}
	switch {
	case l == nil:
		l = &lease{key: key, users: 1, settled: make(chan struct{}), ended: make(chan struct{})}
		ls.byKey[key] = l
		ls.n.Add(1)
		return l, true, 0
	case l.release == nil:
		return nil, false, delegation.ReasonContended
	}
	l.users++
	return l, false, 0
}

// wait waits for done without mu, which the caller holds before and after.
func (ls *leases) wait(done <-chan struct{}) {
	ls.mu.Unlock()
	<-done
	ls.mu.Lock()
}

// finish records the file system's answer: the release function of the lease,
// or nil if there is no lease.
func (ls *leases) finish(l *lease, release func()) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.release = release
	close(l.settled)
	if release == nil {
		ls.drop(l)
	}
}

// drop removes l. The caller holds mu.
func (ls *leases) drop(l *lease) {
	l.ending = true
	delete(ls.byKey, l.key)
	ls.n.Add(-1)
	close(l.ended)
}

// leave removes a user of l, and releases the lease after the last.
func (ls *leases) leave(l *lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.users--; l.users == 0 {
		ls.end(l)
	}
}

// free releases the lease, if any, of an object that is about to change.
func (ls *leases) free(key []byte) {
	if !ls.any() {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l := ls.byKey[string(key)]; l != nil; l = ls.byKey[string(key)] {
		switch {
		case l.release == nil:
			ls.wait(l.settled) // the ACQUIRE is stale; its lease must go first
		case l.ending:
			ls.wait(l.ended)
		default:
			ls.end(l)
		}
	}
}

// end releases l, unless the release is already under way. The file system may
// be slow, so end unlocks mu during the release; the caller holds mu before and
// after. l remains in byKey until the release is done, and goroutines that find
// l meanwhile wait.
func (ls *leases) end(l *lease) {
	if l.ending {
		return
	}
	l.ending = true
	ls.mu.Unlock()
	l.release()
	ls.mu.Lock()
	ls.drop(l)
}

// broken begins a change on behalf of the process that broke the lease. That
// process waits until the lease is released.
func (k *Keeper) broken(l *lease) {
	var ch Change
	key := []byte(l.key)
	defer k.Done(&ch)
	for !k.Begin(&ch, nil, key) {
		select {
		case <-ch.woken:
		case <-k.stop:
			return
		}
	}
}
