package fairshare

import (
	"container/list"
	"context"
	"slices"
	"sync"
)

// Places limit how many calls wait. A party may take another place while it has
// fewer than are free. A single party thus gets half, and a new party finds a place
// unless there are many parties. Waiting calls from one party get places in arrival
// order, and parties take turns.
type Places struct {
	limit int

	mu    sync.Mutex
	taken int
	by    map[Name]int // place count by party
	waits map[Name]*list.List
	turns []Name // keys in waits, the next first; none may have another place
}

// NewPlaces returns Places with a limit.
func NewPlaces(limit int) *Places {
	return &Places{limit: limit, by: make(map[Name]int), waits: make(map[Name]*list.List)}
}

// Take takes a place for a party, if the party may have another one.
func (p *Places) Take(of Name) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takePlaceLocked(of)
}

func (p *Places) takePlaceLocked(of Name) bool {
	if p.by[of] >= p.limit-p.taken {
		return false
	}
	p.by[of]++
	p.taken++
	return true
}

// Acquire waits until the party may have another place, and takes that place. The
// error is ctx's cause.
func (p *Places) Acquire(ctx context.Context, of Name) error {
	p.mu.Lock()
	if p.takePlaceLocked(of) {
		p.mu.Unlock()
		return nil
	}
	calls := p.waits[of]
	if calls == nil {
		calls = list.New()
		p.waits[of], p.turns = calls, append(p.turns, of)
	}
	taken := make(chan struct{})
	call := calls.PushBack(taken)
	p.mu.Unlock()
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-taken: // in the meantime
		p.givePlaceLocked(of)
	default:
		p.removeWaitLocked(of, call)
	}
	return context.Cause(ctx)
}

// removeWaitLocked removes a waiting call.
func (p *Places) removeWaitLocked(of Name, call *list.Element) {
	calls := p.waits[of]
	if calls.Remove(call); calls.Len() > 0 {
		return
	}
	delete(p.waits, of)
	p.turns = slices.DeleteFunc(p.turns, func(n Name) bool { return n == of })
}

// Give releases a party's place.
func (p *Places) Give(of Name) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.givePlaceLocked(of)
}

func (p *Places) givePlaceLocked(of Name) {
	p.taken--
	if p.by[of]--; p.by[of] == 0 {
		delete(p.by, of)
	}
	for {
		next := slices.IndexFunc(p.turns, p.takePlaceLocked)
		if next < 0 {
			return
		}
		n := p.turns[next]
		p.turns = append(slices.Delete(p.turns, next, next+1), n)
		call := p.waits[n].Front()
		close(call.Value.(chan struct{}))
		p.removeWaitLocked(n, call)
	}
}

// Taken returns how many places are in use.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}
