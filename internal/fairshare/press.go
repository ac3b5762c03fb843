package fairshare

import (
	"container/list"
	"sync"
	"time"
)

// A Press looks at all connections while calls wait for memory: a peer that has
// some and does not move must not keep it from others for as long as it may at
// other times.
type Press struct {
	look  func(round uint64)
	timer *time.Timer

	mu      sync.Mutex
	waiting list.List // when each call began to wait, the oldest first
	round   uint64
	due     time.Time // the next look
}

// NewPress returns a Press that calls look every PressTime while calls wait. It
// is to end the connections that stand, as Sight.Stands tells of a round.
func NewPress(look func(round uint64)) *Press {
	p := &Press{look: look}
	p.timer = time.AfterFunc(PressTime, p.tick)
	p.timer.Stop()
	return p
}

// begin notes a call that waits, and end that it does not any more.
func (p *Press) begin() *list.Element {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.waiting.Len() == 0 {
		p.round += 2 // what was seen before is not of the last period
		p.due = now
		p.timer.Reset(0)
	}
	return p.waiting.PushBack(now)
}

func (p *Press) end(call *list.Element) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting.Remove(call); p.waiting.Len() == 0 {
		p.timer.Stop()
	}
}

// Waiting returns how many calls wait for memory.
func (p *Press) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting.Len()
}

// Waited returns for how long the call has waited for memory that waits longest.
func (p *Press) Waited() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := p.waiting.Front()
	if oldest == nil {
		return 0
	}
	return time.Since(oldest.Value.(time.Time))
}

// tick looks, if that is due: a timer that is stopped or set anew as it fires
// comes anyway, and two looks with no time between them would find that
// nobody moves.
func (p *Press) tick() {
	p.mu.Lock()
	now := time.Now()
	due := p.waiting.Len() > 0 && !now.Before(p.due)
	if due {
		p.round++
		p.due = now.Add(PressTime)
		p.timer.Reset(PressTime)
	}
	round := p.round
	p.mu.Unlock()
	if due {
		p.look(round)
	}
}

// A Sight is what a look has found of a connection.
type Sight struct {
	Round        uint64
	Posted, Done uint64 // pieces of work that need the peer to move
	Octets       uint64 // that have moved, as far as is known
}

// Stands takes what a look finds now in place of what s is, and reports whether the
// connection had work to do at the look before, and has neither done any nor moved
// many bytes since.
func (s *Sight) Stands(now Sight) bool {
	before := *s
	*s = now
	moved := now.Done != before.Done || now.Octets >= before.Octets+Bulk
	return before.Round+1 == now.Round && !moved && before.Posted != before.Done
}
