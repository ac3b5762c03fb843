package realm

import (
	"sync"
	"sync/atomic"
	"time"
)

// An overload bounds a file system's use of the server when its storage does
// not answer. Waiting calls continue to wait, as in knfsd. Answering a call
// early would free nothing: the call stays in the kernel, and the client would
// send it again, to wait there twice. But if many calls wait, half of them for
// long, further ones are refused with Later before anything is done. That suits
// every procedure: clients retry until they are admitted, and nothing is done
// twice. Other exports are unaffected on every transport. So are parties whose
// own calls are answered, because the stuck calls are another party's.
//
// Calls are counted by the period in which they began. A period ends when a
// call of hung checks the clock, which happens only if there are many calls.
type overload struct {
	period  atomic.Uint32
	running inPeriods // calls

	mu    sync.Mutex
	began time.Time          // start of the current period
	ended [periods]time.Time // ends of the earlier periods
}

// inPeriods counts calls by the periods in which they began.
type inPeriods [periods]atomic.Int64

// begin counts a party's call until end, in the period that it returns.
func (p *overload) begin(by *partyWork) (period uint32) {
	period = p.period.Load()
	p.running[period].Add(1)
	by.running[period].Add(1)
	return period
}

func (p *overload) end(by *partyWork, period uint32) {
	by.running[period].Add(-1)
	p.running[period].Add(-1)
}

// stuck reports whether a party's next call must be refused at once: there are
// many calls, and half of all, and half of the party's but at least fewHung,
// have run for longer than stuckTime.
func (p *overload) stuck(w *work, by *partyWork) bool {
	all := w.taken.Load()
	if all < maxWaiting {
		return false
	}
	hung, own := p.hung(by)
	return 2*hung >= all && own >= fewHung && 2*own >= by.taken.Load()
}

// starved reports whether a call that has waited for a permit for stuckTime
// must stop waiting: half of the calls with a permit have run for as long.
func (p *overload) starved(w *work) bool {
	hung, _ := p.hung(nil)
	return 2*hung >= w.taken.Load()
}

// hung returns how many calls have run for longer than stuckTime, and how many
// of these are the party's.
func (p *overload) hung(by *partyWork) (all, own int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	current := p.period.Load()
	for i := range p.running {
		if uint32(i) != current && now.Sub(p.ended[i]) > stuckTime {
			all += p.running[i].Load()
			if by != nil {
				own += by.running[i].Load()
			}
		}
	}
	if now.Sub(p.began) >= stuckTime/periods {
		p.turnLocked(now)
	}
	return all, own
}

// turnLocked begins the next period if a counter is free, which means that all
// calls of its earlier period have ended.
func (p *overload) turnLocked(now time.Time) {
	current := p.period.Load()
	for i := range p.running {
		if uint32(i) != current && p.running[i].Load() == 0 {
			p.ended[current], p.began = now, now
			p.period.Store(uint32(i))
			return
		}
	}
}
