package nfsserver

import (
	"sync"
	"sync/atomic"
	"time"
)

// A patience bounds what a file system takes of the server when its storage
// does not answer. The calls that wait for it then wait on, as with knfsd: to
// answer one early would give nothing back, for it stays in the kernel, and the
// client would send it again, to wait there twice. But where many wait, half of
// them for long, further ones are NFS3ERR_JUKEBOX before anything of them is
// done. That is right for every procedure, and clients come again by
// themselves, until they find a place; nothing is done twice. Other exports do
// not notice, whatever the transport.
//
// Calls are counted by the period in which they began: the next one begins when
// somebody looks at the clock, which nobody does before there are many.
type patience struct {
	period  atomic.Uint32
	running [periods]atomic.Int64 // calls, by their periods

	mu    sync.Mutex
	began time.Time          // the period
	ended [periods]time.Time // those before
}

// begin counts a call until its end, in what it returns.
func (p *patience) begin() *atomic.Int64 {
	n := &p.running[p.period.Load()]
	n.Add(1)
	return n
}

// stuck tells whether all calls, of which there are many, are to wait no longer: half of
// them have been running for longer than stuckTime.
func (p *patience) stuck(all int64) bool {
	if all < maxWaiting {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	hung := int64(0)
	current := p.period.Load()
	for i := range p.running {
		if uint32(i) != current && now.Sub(p.ended[i]) > stuckTime {
			hung += p.running[i].Load()
		}
	}
	if now.Sub(p.began) >= stuckTime/periods {
		p.turnLocked(now)
	}
	return 2*hung >= all
}

// turnLocked begins the next period, if there is a counter for it: one of a period whose
// calls have all ended.
func (p *patience) turnLocked(now time.Time) {
	current := p.period.Load()
	for i := range p.running {
		if uint32(i) != current && p.running[i].Load() == 0 {
			p.ended[current], p.began = now, now
			p.period.Store(uint32(i))
			return
		}
	}
}
