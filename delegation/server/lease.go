package server

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/delegation"
)

// A lease is what the file system has given for an object: it tells of changes by
// others. All grants of the object stand on the same.
type lease struct {
	key     string
	settled chan struct{} // closed when the file system has answered
	release func()        // set then
	users   int           // grants, and ACQUIREs under way
	ending  bool          // it is being released, or gone
	ended   chan struct{} // closed when it is gone
}

// leases are those that there are.
type leases struct {
	n atomic.Int64 // in byKey

	mu    sync.Mutex
	byKey map[string]*lease
}

func (ls *leases) any() bool { return ls.n.Load() > 0 }

// Lease has the grant stand on a lease of the file system: take gets it, and says whom
// to tell, on any goroutine that may wait, when it is broken. The error is take's.
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

// MakeRoom ends a grant that stands on a lease and is not in use, if it finds one soon,
// and tells whether it did: a file system has no room for another lease.
func (k *Keeper) MakeRoom() bool {
	made, fx := k.g.MakeRoom()
	k.do(fx)
	return made
}

// join has one user more stand on the lease of an object. mine says that there was none,
// so that the caller is to take it and to settle it.
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

// wait waits without mu, which the caller holds before and after.
func (ls *leases) wait(done <-chan struct{}) {
	ls.mu.Unlock()
	<-done
	ls.mu.Lock()
}

// finish says what the file system has given: nil for nothing.
func (ls *leases) finish(l *lease, release func()) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.release = release
	close(l.settled)
	if release == nil {
		ls.drop(l)
	}
}

// drop takes l out. The caller holds mu.
func (ls *leases) drop(l *lease) {
	l.ending = true
	delete(ls.byKey, l.key)
	ls.n.Add(-1)
	close(l.ended)
}

// leave is for one user less, and releases the lease after the last.
func (ls *leases) leave(l *lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.users--; l.users == 0 {
		ls.end(l)
	}
}

// free releases the lease of an object that is about to be changed, if there is one.
func (ls *leases) free(key []byte) {
	if !ls.any() {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l := ls.byKey[string(key)]; l != nil; l = ls.byKey[string(key)] {
		switch {
		case l.release == nil:
			ls.wait(l.settled) // the ACQUIRE is spoiled; what it gets must go first
		case l.ending:
			ls.wait(l.ended)
		default:
			ls.end(l)
		}
	}
}

// end releases l, if nobody does so already. The file system may take its time, so that
// happens without mu, which the caller holds before and after; l is found until it is
// gone, and who finds it waits.
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

// broken is a change by somebody else, who waits for the lease to be released.
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
