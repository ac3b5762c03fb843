package realm

import (
	"container/list"
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// permits bound how many calls file systems work on at once, over all
// transports: each may block a thread of the operating system, and Go gives a
// process 10,000. A call has a permit only while a file system works on it. The
// call takes the permit after all other waiting, for names, users and memory.
// The call gives the permit up before a wait for other clients, because the call
// that ends the wait may need a permit.
//
//	names, memory ─▶ take ─▶ work ─▶ give ─▶ answered
//	                  ▲        │ delegations of others
//	                  └─ wait ◀┘
//
// A file system may have half of the permits that are left, and a party half of
// the rest of these. A hanging file system thus never keeps others out, nor does
// a party.
type permits struct {
	seed    maphash.Seed
	taken   atomic.Int64
	waiting atomic.Int64 // calls

	mu     sync.Mutex
	queues list.List // of *partyWork with waiting calls: the next first
}

// work counts the permits of a file system.
type work struct {
	taken atomic.Int64
	by    [partyCounters]partyWork
}

// partyWork counts a party's permits for one file system. Parties that hash to
// the same counter count as one.
type partyWork struct {
	of      *work
	taken   atomic.Int64
	running inPeriods // see overload

	// guarded by permits.mu
	queue list.List // of *permitWait: the oldest first
	place *list.Element
}

// A permitWait is a waiting call.
type permitWait struct {
	taken chan struct{} // closed when the call has a permit
	place *list.Element // nil when the call no longer waits
}

func (p *permits) init() { p.seed = maphash.MakeSeed() }

// of returns the counter of a call's party.
func (p *permits) of(w *work, peer *oncrpc.Peer) *partyWork {
	h := maphash.Comparable(p.seed, fairshare.PartyOfIP(addrOf(peer)))
	return &w.by[h%partyCounters]
}

// acquire waits for a permit. It calls wanted repeatedly, and stops waiting
// when wanted returns false.
func (p *permits) acquire(ctx context.Context, w *work, by *partyWork, wanted func() bool) bool {
	if p.try(w, by) {
		return true
	}
	k := &permitWait{taken: make(chan struct{})}
	p.enter(w, by, k)
	timer := time.NewTicker(stuckTime)
	defer timer.Stop()
	for {
		select {
		case <-k.taken:
			return true
		case <-ctx.Done():
			return !p.leave(by, k)
		case <-timer.C:
			if !wanted() {
				return !p.leave(by, k)
			}
		}
	}
}

// try takes a permit, if the party may have another one.
func (p *permits) try(w *work, by *partyWork) bool {
	all, here, own := p.taken.Add(1), w.taken.Add(1), by.taken.Add(1)
	left := (maxWorking - all + 1) - (here - 1) // twice the permits that the file system could get
	if 2*(own-1) < left {
		return true
	}
	p.put(w, by)
	return false
}

func (p *permits) put(w *work, by *partyWork) {
	by.taken.Add(-1)
	w.taken.Add(-1)
	p.taken.Add(-1)
}

// give returns a permit.
func (p *permits) give(w *work, by *partyWork) {
	p.put(w, by)
	if p.waiting.Load() > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.admitLocked()
	}
}

// enter makes a call wait. The failed try counted a permit for a moment and may
// have made the try of another waiting call fail, so enter tries all waiting
// calls again.
func (p *permits) enter(w *work, by *partyWork, k *permitWait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting.Add(1) // before admitLocked, so that a later give sees it
	by.of = w
	k.place = by.queue.PushBack(k)
	if by.place == nil {
		by.place = p.queues.PushBack(by)
	}
	p.admitLocked()
}

// leave ends a call's wait. It reports false if the call has got a permit.
func (p *permits) leave(by *partyWork, k *permitWait) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k.place == nil {
		return false
	}
	p.removeLocked(by, k)
	return true
}

func (p *permits) removeLocked(by *partyWork, k *permitWait) {
	by.queue.Remove(k.place)
	k.place = nil
	p.waiting.Add(-1)
	if by.queue.Len() == 0 {
		p.queues.Remove(by.place)
		by.place = nil
	}
}

// admitLocked gives permits to waiting calls, one to each party in turn, until
// no party may have more.
func (p *permits) admitLocked() {
	for refused := 0; refused < p.queues.Len(); {
		by := p.queues.Front().Value.(*partyWork)
		p.queues.MoveToBack(by.place)
		if !p.try(by.of, by) {
			refused++
			continue
		}
		refused = 0
		k := by.queue.Front().Value.(*permitWait)
		p.removeLocked(by, k)
		close(k.taken)
	}
}
