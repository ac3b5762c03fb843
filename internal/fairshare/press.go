package fairshare

import (
	"container/list"
	"sync"
	"time"
)

// A Press periodically checks all connections while calls wait for memory. While
// others wait, a peer that holds memory and is stuck may keep it for less time than
// usual.
type Press struct {
	look  func(round uint64)
	timer *time.Timer

	mu       sync.Mutex
	waiting  list.List // when each call began to wait, oldest first
	round    uint64
	nextLook time.Time // when to look next
}

// NewPress returns a Press that calls look every PressTime while calls wait. look
// must close the connections that are stuck, for which Sight.Stands returns true in
// a round.
func NewPress(look func(round uint64)) *Press {
	p := &Press{look: look}
	p.timer = time.AfterFunc(PressTime, p.lookIfDue)
	p.timer.Stop()
	return p
}

// addWaiting records a waiting call, and removeWaiting the end of its wait.
func (p *Press) addWaiting() *list.Element {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.waiting.Len() == 0 {
		p.round += 2 // earlier sights are not from the last period
		p.nextLook = now
		p.timer.Reset(0)
	}
	return p.waiting.PushBack(now)
}

func (p *Press) removeWaiting(call *list.Element) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting.Remove(call); p.waiting.Len() == 0 {
		p.timer.Stop()
	}
}

// waitingCalls returns how many calls wait for memory.
func (p *Press) waitingCalls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting.Len()
}

// longestWait returns the time for which the first waiting call has waited for memory.
func (p *Press) longestWait() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := p.waiting.Front()
	if oldest == nil {
		return 0
	}
	return time.Since(oldest.Value.(time.Time))
}

// lookIfDue calls look if it is due. A timer that is stopped or reset while it
// fires runs anyway, and two looks in immediate succession would find all peers
// stuck.
func (p *Press) lookIfDue() {
	p.mu.Lock()
	now := time.Now()
	due := p.waiting.Len() > 0 && !now.Before(p.nextLook)
	if due {
		p.round++
		p.nextLook = now.Add(PressTime)
		p.timer.Reset(PressTime)
	}
	round := p.round
	p.mu.Unlock()
	if due {
		p.look(round)
	}
}

// A Sight is what a look recorded about a connection.
type Sight struct {
	Round        uint64
	Posted, Done uint64 // work items that need the peer's cooperation
	Bytes        uint64 // bytes moved, as far as known
}

// Stands replaces s with the sight now. It reports whether the connection had work
// at the previous look, and since then has neither completed any nor moved many
// bytes.
func (s *Sight) Stands(now Sight) bool {
	before := *s
	*s = now
	moved := now.Done != before.Done || now.Bytes >= before.Bytes+Bulk
	return before.Round+1 == now.Round && !moved && before.Posted != before.Done
}
