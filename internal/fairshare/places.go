package fairshare

import (
	"container/list"
	"context"
	"slices"
	"sync"
)

// Places are places for calls that wait. A party may take another place while it
// has fewer than are free. A single party thus gets half, and a new party finds
// a place unless there are many. Of calls that wait, those of one party get places in
// their order, and parties take turns.
type Places struct {
	limit int

	mu    sync.Mutex
	taken int
	by    map[Name]int // places of parties with any
	waits map[Name]*list.List
	turns []Name // of waits, the next first; none may have another place
}

// NewPlaces returns a number of places.
func NewPlaces(limit int) *Places {
	return &Places{limit: limit, by: make(map[Name]int), waits: make(map[Name]*list.List)}
}

// Take takes a place for a party, if the party may have another one.
func (p *Places) Take(of Name) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeLocked(of)
}

func (p *Places) takeLocked(of Name) bool {
	if p.by[of] >= p.limit-p.taken {
		return false
	}
	p.by[of]++
	p.taken++
	return true
}

// Acquire waits until the party may have another place, and takes that place. The
// error is the cause of ctx's end.
func (p *Places) Acquire(ctx context.Context, of Name) error {
	p.mu.Lock()
	if p.takeLocked(of) {
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
	case <-taken: // meanwhile
		p.giveLocked(of)
	default:
		p.forgetLocked(of, call)
	}
	return context.Cause(ctx)
}

// forgetLocked removes a call that waits.
func (p *Places) forgetLocked(of Name, call *list.Element) {
	calls := p.waits[of]
	if calls.Remove(call); calls.Len() > 0 {
		return
	}
	delete(p.waits, of)
	p.turns = slices.DeleteFunc(p.turns, func(n Name) bool { return n == of })
}

// Give gives back a party's place.
func (p *Places) Give(of Name) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveLocked(of)
}

func (p *Places) giveLocked(of Name) {
	p.taken--
	if p.by[of]--; p.by[of] == 0 {
		delete(p.by, of)
	}
	for {
		next := slices.IndexFunc(p.turns, p.takeLocked)
		if next < 0 {
			return
		}
		n := p.turns[next]
		p.turns = append(slices.Delete(p.turns, next, next+1), n)
		call := p.waits[n].Front()
		close(call.Value.(chan struct{}))
		p.forgetLocked(n, call)
	}
}

// Taken returns the number of places in use.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}
