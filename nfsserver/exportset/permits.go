package exportset

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

// A permitPool limits the number of calls that file systems work on at once, over all
// transports: each may block an operating system thread, and Go gives a process 10,000. A call
// has a permit only while a file system works on it. It acquires the permit after all other
// waiting, for names, users and memory. It releases the permit before it waits for other
// clients, because the call that ends the wait may need a permit.
//
//	names, memory ─▶ acquire ─▶ work ─▶ release ─▶ reply
//	                    ▲         │ delegations of others
//	                    └─ wait ◀─┘
//
// A file system may have half of the permits that are left, and a client group half of the rest
// of these. A hanging file system thus never keeps others out, nor does a client group.
type permitPool struct {
	seed    maphash.Seed
	taken   atomic.Int64
	waiting atomic.Int64 // number of waiting calls

	mu     sync.Mutex
	queues list.List // *partyCounts with waiting calls; the next is first
}

// permitCounts counts a file system's permits.
type permitCounts struct {
	taken   atomic.Int64
	byParty [partyCounters]partyCounts
}

// partyCounts counts a client group's permits for one file system. Groups that hash to the same
// counter count as one.
type partyCounts struct {
	total   *permitCounts
	taken   atomic.Int64
	running periodCounts // see overload

	// permitPool.mu guards these.
	queue     list.List // *permitWait; the oldest is first
	queueElem *list.Element
}

// A permitWait is a waiting call.
type permitWait struct {
	granted   chan struct{} // closed when the call has a permit
	queueElem *list.Element // nil when the call no longer waits
}

func (p *permitPool) init() { p.seed = maphash.MakeSeed() }

// counterFor returns the counter for a call's client group.
func (p *permitPool) counterFor(w *permitCounts, peer *oncrpc.Peer) *partyCounts {
	h := maphash.Comparable(p.seed, fairshare.PartyOfIP(addrOf(peer)))
	return &w.byParty[h%partyCounters]
}

// acquirePermit waits for a permit. It calls wanted repeatedly, and stops waiting when wanted
// returns false.
func (p *permitPool) acquirePermit(ctx context.Context, w *permitCounts, by *partyCounts, wanted func() bool) bool {
	if p.tryPermit(w, by) {
		return true
	}
	k := &permitWait{granted: make(chan struct{})}
	p.enqueue(w, by, k)
	timer := time.NewTicker(stuckTime)
	defer timer.Stop()
	for {
		select {
		case <-k.granted:
			return true
		case <-ctx.Done():
			return !p.cancelWait(by, k)
		case <-timer.C:
			if !wanted() {
				return !p.cancelWait(by, k)
			}
		}
	}
}

// tryPermit takes a permit, if the client group may have another one.
func (p *permitPool) tryPermit(w *permitCounts, by *partyCounts) bool {
	allTaken, fsTaken, partyTaken := p.taken.Add(1), w.taken.Add(1), by.taken.Add(1)
	left := (maxPermits - allTaken + 1) - (fsTaken - 1) // twice the permits that the file system could get
	if 2*(partyTaken-1) < left {
		return true
	}
	p.uncount(w, by)
	return false
}

func (p *permitPool) uncount(w *permitCounts, by *partyCounts) {
	by.taken.Add(-1)
	w.taken.Add(-1)
	p.taken.Add(-1)
}

// releasePermit returns a permit.
func (p *permitPool) releasePermit(w *permitCounts, by *partyCounts) {
	p.uncount(w, by)
	if p.waiting.Load() > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.admitLocked()
	}
}

// enqueue makes a call wait. The failed tryPermit counted a permit for a moment and may have
// made another waiting call's attempt fail, so enqueue tries all waiting calls again.
func (p *permitPool) enqueue(w *permitCounts, by *partyCounts, k *permitWait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting.Add(1) // before admitLocked, so that a later releasePermit sees it
	by.total = w
	k.queueElem = by.queue.PushBack(k)
	if by.queueElem == nil {
		by.queueElem = p.queues.PushBack(by)
	}
	p.admitLocked()
}

// cancelWait ends a call's wait. It returns false if the call has got a permit.
func (p *permitPool) cancelWait(by *partyCounts, k *permitWait) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k.queueElem == nil {
		return false
	}
	p.removeLocked(by, k)
	return true
}

func (p *permitPool) removeLocked(by *partyCounts, k *permitWait) {
	by.queue.Remove(k.queueElem)
	k.queueElem = nil
	p.waiting.Add(-1)
	if by.queue.Len() == 0 {
		p.queues.Remove(by.queueElem)
		by.queueElem = nil
	}
}

// admitLocked gives permits to waiting calls, one to each client group in turn, until no group
// may have more.
func (p *permitPool) admitLocked() {
	for refused := 0; refused < p.queues.Len(); {
		by := p.queues.Front().Value.(*partyCounts)
		p.queues.MoveToBack(by.queueElem)
		if !p.tryPermit(by.total, by) {
			refused++
			continue
		}
		refused = 0
		k := by.queue.Front().Value.(*permitWait)
		p.removeLocked(by, k)
		close(k.granted)
	}
}
