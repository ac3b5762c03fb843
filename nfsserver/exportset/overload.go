package exportset

import (
	"sync"
	"sync/atomic"
	"time"
)

// An overloadGuard limits a file system's use of the server when its storage does not respond.
// Waiting calls continue to wait, as in knfsd. Replying to a call early would free nothing: the
// call stays in the kernel, and the client would send it again, to wait there twice. But if
// many calls wait, half of them for long, further ones are rejected with Later before anything
// is done. That suits every procedure: clients retry until they are admitted, and nothing is
// done twice. Other exports are unaffected on every transport. So are client groups whose own
// calls complete, because the stuck calls belong to another group.
//
// Calls are counted by the period in which they began. A period ends when a call to countHung
// checks the clock, which happens only if there are many calls.
type overloadGuard struct {
	period  atomic.Uint32
	running periodCounts // running calls

	mu          sync.Mutex
	periodStart time.Time              // start of the current period
	periodEnds  [periodCount]time.Time // ends of the earlier periods
}

// periodCounts counts calls by the periods in which they began.
type periodCounts [periodCount]atomic.Int64

// beginCall counts a client group's call until endCall, in the period that it returns.
func (p *overloadGuard) beginCall(by *partyCounts) (period uint32) {
	period = p.period.Load()
	p.running[period].Add(1)
	by.running[period].Add(1)
	return period
}

func (p *overloadGuard) endCall(by *partyCounts, period uint32) {
	by.running[period].Add(-1)
	p.running[period].Add(-1)
}

// isStuck reports whether a client group's next call must be rejected at once: there are many
// calls, and half of all calls, and half of the group's but at least minHungCalls, have run for
// longer than stuckTime.
func (p *overloadGuard) isStuck(w *permitCounts, by *partyCounts) bool {
	all := w.taken.Load()
	if all < overloadCalls {
		return false
	}
	hung, partyHung := p.countHung(by)
	return 2*hung >= all && partyHung >= minHungCalls && 2*partyHung >= by.taken.Load()
}

// isStarved reports whether a call that has waited for a permit for stuckTime must stop
// waiting: half of the calls with a permit have run for as long.
func (p *overloadGuard) isStarved(w *permitCounts) bool {
	hung, _ := p.countHung(nil)
	return 2*hung >= w.taken.Load()
}

// countHung returns the number of calls that have run for longer than stuckTime, and how many
// of these are the client group's.
func (p *overloadGuard) countHung(by *partyCounts) (all, ofParty int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	current := p.period.Load()
	for i := range p.running {
		if uint32(i) != current && now.Sub(p.periodEnds[i]) > stuckTime {
			all += p.running[i].Load()
			if by != nil {
				ofParty += by.running[i].Load()
			}
		}
	}
	if now.Sub(p.periodStart) >= stuckTime/periodCount {
		p.startPeriodLocked(now)
	}
	return all, ofParty
}

// startPeriodLocked begins the next period if a counter is free, which means that all calls
// counted there have ended.
func (p *overloadGuard) startPeriodLocked(now time.Time) {
	current := p.period.Load()
	for i := range p.running {
		if uint32(i) != current && p.running[i].Load() == 0 {
			p.periodEnds[current], p.periodStart = now, now
			p.period.Store(uint32(i))
			return
		}
	}
}
