package fairshare

import (
	"container/list"
	"sync"
	"time"
)

// A Press looks at all connections while calls wait for memory. While others
// wait, a peer that holds memory and is stuck may keep it for less time than
// usual.
type Press struct {
	look  func(round uint64)
	timer *time.Timer

	mu      sync.Mutex
	waiting list.List // when each call began to wait, the oldest first
	round   uint64
	due     time.Time // the next look
}

// NewPress returns a Press that calls look every PressTime while calls wait.
// look must end the connections that are stuck, for which Sight.Stands returns
// true in a round.
func NewPress(look func(round uint64)) *Press {
	p := &Press{look: look}
	p.timer = time.AfterFunc(PressTime, p.tick)
	p.timer.Stop()
	return p
}

// begin notes a waiting call, and end the end of its wait.
func (p *Press) begin() *list.Element {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.waiting.Len() == 0 {
		p.round += 2 // earlier sights are not of the last period
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

// Waiting returns the number of calls that wait for memory.
func (p *Press) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting.Len()
}

// Waited returns how long the longest-waiting call has waited for memory.
func (p *Press) Waited() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := p.waiting.Front()
	if oldest == nil {
		return 0
	}
	return time.Since(oldest.Value.(time.Time))
}

// tick looks if a look is due. A timer that is stopped or reset as it fires
// comes anyway, and two looks in immediate succession would find all peers
// stuck.
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

// A Sight is a look's record of a connection.
type Sight struct {
	Round        uint64
	Posted, Done uint64 // pieces of work that need the peer's cooperation
	Bytes        uint64 // bytes moved, as far as known
}

// Stands replaces s by the sight now. It reports whether the connection had
// work at the look before, and since then has neither done any nor moved many
// bytes.
func (s *Sight) Stands(now Sight) bool {
	before := *s
	*s = now
	moved := now.Done != before.Done || now.Bytes >= before.Bytes+Bulk
	return before.Round+1 == now.Round && !moved && before.Posted != before.Done
}
