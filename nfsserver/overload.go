package nfsserver

import (
	"sync"
	"sync/atomic"
	"time"
)

// An overload bounds what a file system takes of the server when its storage
// does not answer. The calls that wait for it then wait on, as with knfsd: to
// answer one early would give nothing back, for it stays in the kernel, and the
// client would send it again, to wait there twice. But where many wait, half of
// them for long, further ones are NFS3ERR_JUKEBOX before anything of them is
// done. That is right for every procedure, and clients come again by
// themselves, until they find a place; nothing is done twice. Other exports do
// not notice, whatever the transport; nor do parties whose own calls are answered:
// it is their client that makes others' slow.
//
// Calls are counted by the period in which they began: the next one begins when
// somebody looks at the clock, which nobody does before there are many.
type overload struct {
	period  atomic.Uint32
	running inPeriods // calls

	mu    sync.Mutex
	began time.Time          // the period
	ended [periods]time.Time // those before
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

// stuck tells whether a party's next call is to wait for nothing: there are many calls,
// and half of all, and of the party's, have been running for longer than stuckTime.
func (p *overload) stuck(w *work, by *partyWork) bool {
	all := w.taken.Load()
	if all < maxWaiting {
		return false
	}
	hung, own := p.hung(by)
	return 2*hung >= all && own >= fewHung && 2*own >= by.taken.Load()
}

// starved tells whether a call that has waited for a permit for stuckTime is to wait no
// longer: half of those who have one have been running for as long.
func (p *overload) starved(w *work) bool {
	hung, _ := p.hung(nil)
	return 2*hung >= w.taken.Load()
}

// hung returns how many calls have been running for longer than stuckTime, and how many
// of them are a party's.
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

// turnLocked begins the next period, if there is a counter for it: one of a period whose
// calls have all ended.
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
