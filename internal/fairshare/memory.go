package fairshare

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// A Memory is how many bytes the calls of all parties may take together.
type Memory struct {
	limit, part int64
	all         *semaphore.Weighted
	used        atomic.Int64
	press       *Press
}

// NewMemory returns a Memory of limit bytes, of which no party gets more than
// part. The press is told of calls that wait.
func NewMemory(limit, part int64, press *Press) *Memory {
	return &Memory{limit: limit, part: part, all: semaphore.NewWeighted(limit), press: press}
}

// Limit returns how many bytes there are.
func (m *Memory) Limit() int64 { return m.limit }

// InUse returns how many bytes are taken.
func (m *Memory) InUse() int64 { return m.used.Load() }

// Waiting returns how many calls wait for memory, of all that have the same Press.
func (m *Memory) Waiting() int { return m.press.Waiting() }

// Waited returns for how long the one of them has waited that waits longest.
func (m *Memory) Waited() time.Duration { return m.press.Waited() }

// A Part is what a party may take of a Memory, or one connection of what its party
// may.
type Part struct {
	memory *Memory
	whole  *Part // that it is a part of, or nil
	own    *semaphore.Weighted
}

// Part returns the part of a party that has nothing yet.
func (m *Memory) Part() *Part {
	return &Part{memory: m, own: semaphore.NewWeighted(m.part)}
}

// Part returns a part of p, of which no more than n bytes are to be had.
func (p *Part) Part(n int64) *Part {
	return &Part{memory: p.memory, whole: p, own: semaphore.NewWeighted(n)}
}

// TryAcquire takes n bytes, if nobody waits for any.
func (p *Part) TryAcquire(n int64) bool {
	if !p.own.TryAcquire(n) {
		return false
	}
	ok := false
	if p.whole != nil {
		ok = p.whole.TryAcquire(n)
	} else {
		ok = p.memory.tryAcquire(n)
	}
	if !ok {
		p.own.Release(n)
	}
	return ok
}

// Acquire waits for n bytes, first for its own, then for those of the whole and
// then for everybody's. More than a part can never be had: then, and when ctx ends
// first, it returns ctx's error.
func (p *Part) Acquire(ctx context.Context, n int64) error {
	if p.TryAcquire(n) {
		return nil
	}
	err := p.own.Acquire(ctx, n)
	if err != nil {
		return err
	}
	if p.whole != nil {
		err = p.whole.Acquire(ctx, n)
	} else {
		err = p.memory.acquire(ctx, n)
	}
	if err != nil {
		p.own.Release(n)
	}
	return err
}

// Release gives n bytes back.
func (p *Part) Release(n int64) {
	if p.whole != nil {
		p.whole.Release(n)
	} else {
		p.memory.release(n)
	}
	p.own.Release(n)
}

func (m *Memory) tryAcquire(n int64) bool {
	ok := m.all.TryAcquire(n)
	if ok {
		m.used.Add(n)
	}
	return ok
}

func (m *Memory) acquire(ctx context.Context, n int64) error {
	call := m.press.begin()
	err := m.all.Acquire(ctx, n)
	m.press.end(call)
	if err == nil {
		m.used.Add(n)
	}
	return err
}

func (m *Memory) release(n int64) {
	m.used.Add(-n)
	m.all.Release(n)
}
