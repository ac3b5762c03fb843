package share

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// A Memory is how many octets the calls of all parties may take together.
type Memory struct {
	limit, part int64
	all         *semaphore.Weighted
	used        atomic.Int64
	press       *Press
}

// NewMemory returns a Memory of limit octets, of which no party gets more than
// part. The press is told of calls that wait.
func NewMemory(limit, part int64, press *Press) *Memory {
	return &Memory{limit: limit, part: part, all: semaphore.NewWeighted(limit), press: press}
}

// Limit returns how many octets there are.
func (m *Memory) Limit() int64 { return m.limit }

// InUse returns how many octets are taken.
func (m *Memory) InUse() int64 { return m.used.Load() }

// Waiting returns how many calls wait for memory, of all that have the same Press.
func (m *Memory) Waiting() int { return m.press.Waiting() }

// A Part is what one party may take of a Memory.
type Part struct {
	memory *Memory
	own    *semaphore.Weighted
}

// Part returns the part of a party that has nothing yet.
func (m *Memory) Part() *Part {
	return &Part{memory: m, own: semaphore.NewWeighted(m.part)}
}

// TryAcquire takes n octets, if nobody waits for any.
func (p *Part) TryAcquire(n int64) bool {
	if !p.own.TryAcquire(n) {
		return false
	}
	if !p.memory.all.TryAcquire(n) {
		p.own.Release(n)
		return false
	}
	p.memory.used.Add(n)
	return true
}

// Acquire waits for n octets, first for the party's and then for everybody's.
// More than a part can never be had: then, and when ctx ends first, it returns
// ctx's error.
func (p *Part) Acquire(ctx context.Context, n int64) error {
	if p.TryAcquire(n) {
		return nil
	}
	if err := p.own.Acquire(ctx, n); err != nil {
		return err
	}
	m := p.memory
	m.press.begin()
	err := m.all.Acquire(ctx, n)
	m.press.end()
	if err != nil {
		p.own.Release(n)
		return err
	}
	m.used.Add(n)
	return nil
}

// Release gives n octets back.
func (p *Part) Release(n int64) {
	p.memory.used.Add(-n)
	p.memory.all.Release(n)
	p.own.Release(n)
}
