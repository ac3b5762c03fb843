package fairshare

import (
	"context"
	"sync"
)

// Places are places for calls that wait. A party may take another place while it
// has fewer than are free. A single party thus gets half, and a new party finds
// a place unless there are many.
type Places struct {
	limit int

	mu    sync.Mutex
	taken int
	by    map[Name]int  // places of parties with any
	given chan struct{} // closed when a place is given back; nil: nobody waits
}

// NewPlaces returns a number of places.
func NewPlaces(limit int) *Places {
	return &Places{limit: limit, by: make(map[Name]int)}
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
	for {
		p.mu.Lock()
		if p.takeLocked(of) {
			p.mu.Unlock()
			return nil
		}
		if p.given == nil {
			p.given = make(chan struct{})
		}
		given := p.given
		p.mu.Unlock()
		select {
		case <-given:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Give gives back a party's place.
func (p *Places) Give(of Name) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.by[of]--; p.by[of] == 0 {
		delete(p.by, of)
	}
	if p.given != nil {
		close(p.given)
		p.given = nil
	}
}

// Taken returns the number of places in use.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}
