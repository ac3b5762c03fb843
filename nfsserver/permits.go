package nfsserver

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

// permits bound how many calls file systems work on at once, whatever the
// transports: each may block a thread of the operating system, of which Go gives a
// process 10,000. A call has one for a file system's work alone. It takes it when it
// has waited for all else, names, users and memory, and gives it up before it waits
// for other clients, since what ends that wait may be a call that needs one.
//
//	names, memory ─▶ take ─▶ work ─▶ give ─▶ answered
//	                  ▲        │ others hold it
//	                  └─ wait ◀┘
//
// A file system may have half of those that are left, and of these a party half of
// what is left: none that hangs, and nobody, keeps others out.
type permits struct {
	seed    maphash.Seed
	taken   atomic.Int64
	waiting atomic.Int64 // calls

	mu     sync.Mutex
	queues list.List // of *partyWork with calls that wait: the next first
}

// work counts the permits of a file system.
type work struct {
	taken atomic.Int64
	by    [partyCounters]partyWork
}

// partyWork are those of a party for one file system. Parties that chance has given the
// same counter are one here.
type partyWork struct {
	of      *work
	taken   atomic.Int64
	running inPeriods // see patience

	// guarded by the lock of permits
	queue list.List // of *permitWait: the oldest first
	place *list.Element
}

// A permitWait is a call that waits.
type permitWait struct {
	taken chan struct{} // closed when it has a permit
	place *list.Element // nil when it waits no more
}

func (p *permits) init() { p.seed = maphash.MakeSeed() }

// of returns the counter of a call's party.
func (p *permits) of(w *work, peer *oncrpc.Peer) *partyWork {
	h := maphash.Comparable(p.seed, fairshare.PartyOfIP(addrOf(peer)))
	return &w.by[h%partyCounters]
}

// acquire waits for a permit, as long as wanted, which is asked again and again, is true.
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

// try takes a permit, if the party may have one more.
func (p *permits) try(w *work, by *partyWork) bool {
	all, here, own := p.taken.Add(1), w.taken.Add(1), by.taken.Add(1)
	left := (maxWorking - all + 1) - (here - 1) // twice of what the file system could get
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

// give gives a permit back.
func (p *permits) give(w *work, by *partyWork) {
	p.put(w, by)
	if p.waiting.Load() > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.admitLocked()
	}
}

// enter makes a call wait. Who has tried in vain has made it look for a moment as if
// there were less than there is, also to others that wait, so these are looked at again.
func (p *permits) enter(w *work, by *partyWork, k *permitWait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting.Add(1) // before the look, for who gives a permit back after it
	by.of = w
	k.place = by.queue.PushBack(k)
	if by.place == nil {
		by.place = p.queues.PushBack(by)
	}
	p.admitLocked()
}

// leave has a call wait no more, and reports false where it has got a permit.
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

// admitLocked gives permits to those who wait, one each in turn, as long as somebody
// may have one.
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
